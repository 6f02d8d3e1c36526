"""One node of an ONNX graph, as the functions in ``operators`` see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from onnx import TensorProto, helper

from opdb.core.errors import OpdbError

Array: TypeAlias = "np.ndarray[Any, Any]"
#: Known from the file, computed when the model runs, or None if omitted.
Value: TypeAlias = "Array | torch.Tensor | None"
#: ONNX's data types that PyTorch computes with; some of 8 bits and fewer it can only store.
DTYPES = {
    "bfloat16", "bool", "float16", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32",
    "uint64", "uint8",
}  # fmt: skip


class Unreadable(OpdbError):
    """The reason a node cannot be part of a PyTorch module; whoever catches it names the node."""


@dataclass(frozen=True)
class Node:
    """Operator, opset version in effect, attributes (tensors are arrays), number of outputs that are read."""

    op: str
    version: int
    attributes: Mapping[str, Any]
    outputs: int = 1

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def __getitem__(self, name: str) -> Any:
        """An attribute that ONNX requires."""
        if name not in self.attributes:
            raise Unreadable(f"it has no attribute '{name}'")
        return self.attributes[name]

    def having(self, **attributes: Any) -> Node:
        return replace(self, attributes={**self.attributes, **attributes})

    def known(self, name: str, value: Value) -> Array | None:
        """The value of an input that has to be known when the model is read."""
        if isinstance(value, torch.Tensor):
            raise Unreadable(
                f"its input '{name}' is only computed when the model runs; it has to be in the file"
            )
        return value

    def ints(self, name: str, value: Value = None) -> list[int] | None:
        """Integers from an attribute, or from the input that newer operators have instead; None if neither is there."""
        if value is None:
            found = self.get(name)
            return None if found is None else [found] if isinstance(found, int) else list(found)
        array = self.known(name, value)
        return None if array is None else [int(i) for i in array.reshape(-1)]

    def needed(self, name: str, value: Value = None) -> list[int]:
        found = self.ints(name, value)
        if found is None:
            raise Unreadable(f"it has no '{name}'")
        return found


Function: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """An ONNX operator in PyTorch.

    ``function`` takes the node and its inputs: tensors, except at the places ``known``, which are arrays if the file has
    them.  It returns a tensor, an array that is known without running, or a tuple of them.
    ``prepare`` may change the attributes and the known inputs once, before the module is made.  A node that ``takes``
    refuses is expanded to the function that ONNX defines the operator by.
    """

    function: Function
    known: Sequence[int] = ()
    prepare: Callable[[Node, list[Value]], tuple[Node, list[Value]]] | None = None
    takes: Callable[[Node, Sequence[Value]], bool] | None = None


def tensor(value: Array | torch.Tensor) -> torch.Tensor:
    """A value as a tensor.  Raises Unreadable for types that PyTorch does not have."""
    if isinstance(value, torch.Tensor):
        return value
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(np.array(value.view(np.int16))).view(torch.bfloat16)
    try:
        return torch.from_numpy(np.array(value))  # a copy: arrays of a file cannot be written
    except TypeError:
        raise Unreadable(f"PyTorch has no tensors of {value.dtype.name}") from None


def array(value: torch.Tensor) -> Array:
    """The values of a tensor in the numpy type that ONNX uses."""
    if value.dtype == torch.bfloat16:
        bits: Array = value.view(torch.int16).numpy()
        return bits.view(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
    made: Array = value.numpy()
    return made


def dtype(onnx_type: int) -> torch.dtype:
    """The data type for a number of TensorProto.DataType.  Raises Unreadable if PyTorch has none."""
    name = helper.tensor_dtype_to_np_dtype(onnx_type).name
    if name not in DTYPES:
        raise Unreadable(f"PyTorch cannot compute with tensors of {name}")
    found = getattr(torch, name)
    assert isinstance(found, torch.dtype)
    return found


def axis(node: Node, rank: int, default: int | None = None) -> int:
    """The attribute ``axis``, counted from the front."""
    at = node.get("axis", default)
    return int(at + rank if at < 0 else at)
