"""The tensors of a program by origin, with QNN's data types, encodings, and the known values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram

from opdb.programs.torch.encodings import Encodings, Key
from opdb.programs.torch.targets import SAME_VALUE
from opdb.runtime.tensors import Rejection, TensorRef, sized

DTYPES: Mapping[torch.dtype, str] = {
    torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.float64: "f64",
    torch.bool: "bool8", torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32", torch.int64: "i32",
}  # fmt: skip
#: Quantized types -> their stored integers.
INTEGERS: Mapping[str, torch.dtype] = {
    "uq8": torch.uint8, "sq8": torch.int8, "uq16": torch.uint16, "sq16": torch.int16, "sq32": torch.int32,
}  # fmt: skip


def beyond_int32(tensor: torch.Tensor) -> int | None:
    """A value of an int64 tensor that int32 cannot hold, or None."""
    if tensor.dtype != torch.int64 or tensor.is_meta or not tensor.numel():
        return None
    least, most = (int(v) for v in torch.aminmax(tensor))
    return least if least < -(2**31) else most if most >= 2**31 else None


@dataclass
class ProgramTensors:
    """``float_dtype``: the type that replaces float32; f16 for graphs in half precision.

    ``in_floats``: names of nodes that read and write floats even next to quantize nodes: the host's nodes
    (opdb.execute.dispatch).
    """

    exported: ExportedProgram
    float_dtype: str = "f32"
    in_floats: Collection[str] = ()
    values: dict[Key, torch.Tensor] = field(default_factory=dict)  # of static tensors
    encodings: Encodings = field(init=False)
    origins: dict[torch.fx.Node, Key] = field(default_factory=dict, repr=False)
    _by_name: dict[str, torch.fx.Node] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.encodings = Encodings(self.values, self.in_floats, SAME_VALUE)
        self._by_name = {n.name: n for n in self.exported.graph.nodes}

    def origin(self, node: torch.fx.Node) -> Key:
        """The tensor that a node returns in PyTorch."""
        return self.origins[node]

    def read_by(self, node: torch.fx.Node, reader: torch.fx.Node) -> Key:
        """The tensor that ``reader`` reads from ``node``: the stored integers if ``node`` dequantizes them."""
        if reader.name in self.in_floats:
            return self.origin(node)
        return self.encodings.operands.get(node) or self.origin(node)

    def dtype(self, dtype: torch.dtype) -> str:
        if dtype not in DTYPES:
            raise Rejection(f"QNN has no counterpart of {dtype}")
        return self.float_dtype if dtype == torch.float32 else DTYPES[dtype]

    def ref(self, key: Key, node: torch.fx.Node | None = None) -> TensorRef:
        """The tensor of an origin.  Raises Rejection if its shape, dtype or values cannot be a QNN tensor's."""
        fake = self.fake(key, node)
        shape = tuple(fake.shape) or (1,)
        symbols = [str(d) for d in shape if not isinstance(d, int)]
        if symbols:
            raise Rejection(
                f"the shape of {key[0]} has the symbolic dimension {symbols[0]}; export it with static shapes"
            )
        static = key in self.values
        shape = sized(key[0], shape)
        if static and (wide := beyond_int32(fake)) is not None:
            raise Rejection(f"it reads a constant with the value {wide}, and QNN has int32 for int64")
        dtype, quant = self.encodings.of.get(key) or (self.dtype(fake.dtype), None)
        return TensorRef(shape, dtype, static=static, key=key, quant=quant, base_shape=shape)

    def fake(self, key: Key, node: torch.fx.Node | None = None) -> torch.Tensor:
        """A tensor with the dtype and shape in PyTorch (a quantized one's integers); for a constant, its value."""
        if key in self.values:
            return self.values[key]
        value = (node or self._by_name[key[0]]).meta.get("val")
        if isinstance(value, (list, tuple)):
            value = value[key[1]]
        if not isinstance(value, torch.Tensor):
            raise Rejection(f"result {key[1]} of {key[0]} is no tensor")
        return value.to(INTEGERS[self.encodings.of[key][0]]) if key in self.encodings.of else value

    def array(self, key: Key) -> np.ndarray[Any, Any]:
        """The value of a static tensor, in its ref's dtype."""
        tensor = self.values[key].cpu().contiguous()
        if tensor.dtype == torch.bfloat16:
            tensor = tensor.view(torch.uint16)
        array: np.ndarray[Any, Any] = tensor.numpy().reshape(tuple(tensor.shape) or (1,))
        if tensor.dtype == torch.int64:
            return array.astype(np.int32)
        if tensor.dtype == torch.float32 and self.float_dtype == "f16":
            return array.astype(np.float16)
        return array
