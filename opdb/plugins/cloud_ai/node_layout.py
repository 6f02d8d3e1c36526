"""The memory layout of nodes for Cloud AI packages that were compiled with opdb's stand-in headers, in three generations."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, c_char_p, c_float, c_int32, c_size_t, c_void_p
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.lower.quantize.conventions import CLOUD_AI, Encoding, converted
from opdb.plugins.cloud_ai.codegen import aic

Array = np.ndarray[Any, Any]
DATA_TYPES = ("DTFloat32", "DTFloat16", "DTBFloat16", "DTQInt8", "DTQUInt8", "DTQInt16", "DTQInt32", "DTIInt32",
              "DTIInt64", "DTBool", "DTString")  # fmt: skip
RANKS = 8


class Param(Structure):
    _fields_ = (("data", c_void_p), ("dtype", c_int32), ("name", c_char_p), ("size", c_int32))


class Tensor(Structure):
    """CustomOpIOTensor; generation 1.17 lacks the two members that TiledTensor adds."""

    _fields_ = (("data", c_void_p), ("sizes", POINTER(c_int32)), ("rank", c_int32), ("dtype", c_int32),
                ("scale", c_float), ("offset", c_float))  # fmt: skip


class TiledTensor(Structure):
    _fields_ = (*Tensor._fields_, ("tile_start", POINTER(c_int32)), ("tile_end", POINTER(c_int32)))


class Scratch(Structure):
    _fields_ = (("buf", c_void_p), ("size", c_int32))


SYNC = ctypes.CFUNCTYPE(None, c_int32)


class Context(Structure):
    _fields_ = (("inputs", c_void_p), ("outputs", c_void_p), ("params", c_void_p), ("scratch", POINTER(Scratch)),
                ("sync", SYNC), ("num_inputs", c_int32), ("num_outputs", c_int32), ("num_params", c_int32),
                ("num_scratch", c_int32))  # fmt: skip


class TileConfig(Structure):
    """The tile config of generations 1.17 and 1.21."""

    _fields_ = (("count", c_int32), ("axes", c_int32 * RANKS), ("alignment", c_int32 * RANKS))


class TileAxes(Structure):
    """The tile axes of generation 5.0.0, which has no alignment."""

    _fields_ = (("count", c_int32), ("axes", c_int32 * RANKS))


class Tile(Structure):
    _fields_ = (("start", c_int32 * RANKS), ("end", c_int32 * RANKS))


class Listed(Structure):
    _fields_ = (("first", c_void_p), ("count", c_size_t))


class Properties(Structure):
    """The properties of generation 5.0.0."""

    _fields_ = (
        ("inputs", Listed),
        ("outputs", Listed),
        ("params", Listed),
        ("names", Listed),
        ("tiles", Listed),
    )


class Handle(Structure):
    """The properties handle of generation 1.21."""

    _fields_ = (("inputs", c_void_p), ("outputs", c_void_p), ("params", c_void_p), ("tiles", POINTER(c_void_p)),
                ("num_inputs", c_int32), ("num_outputs", c_int32), ("num_params", c_int32))  # fmt: skip


class Node:
    """A node as functions and kernels receive it.  ``arrays``: data of inputs and outputs, or None."""

    def __init__(
        self, api: str, config: OpConfig, arrays: Sequence[Array] | None = None, outputs: int | None = None
    ) -> None:
        self.api, self._keep = api, [] if arrays is None else list(arrays)
        self.kind = Tensor if api == "1.17" else TiledTensor
        tensors = (*config.inputs, *config.outputs)
        data: Sequence[Array | None] = [None] * len(tensors) if arrays is None else arrays
        made = [self._tensor(t, a) for t, a in zip(tensors, data, strict=True)]
        n = len(config.inputs)
        self.inputs = (self.kind * max(n, 1))(*made[:n])
        self.outputs = (self.kind * max(len(made) - n, 1))(*made[n:])
        self.params = (Param * max(len(config.params), 1))(*map(self._param, config.params))
        self.counts = (n, len(made) - n, len(config.params))
        self.tiles: Any = None  # for each output, and the outputs' names: some generations need them, too
        self.names: Any = None

    def _ints(self, values: Sequence[int]) -> Any:
        made = (c_int32 * RANKS)(*values)
        self._keep.append(made)  # type: ignore[arg-type]
        return ctypes.cast(made, POINTER(c_int32))

    def _tensor(self, t: TensorConfig, array: Array | None) -> Any:
        made = self.kind()
        made.data = None if array is None else array.ctypes.data
        made.sizes, made.rank = self._ints(t.shape), len(t.shape)
        made.dtype, made.scale = DATA_TYPES.index(aic.TYPES[t.dtype]), 1.0
        if t.quant is not None:
            of, _ = converted(Encoding(t.dtype, t.quant.scale[0], (t.quant.offset or (0,))[0]), CLOUD_AI)
            made.scale, made.offset = of.scale, of.offset
        if self.api != "1.17":
            made.tile_start, made.tile_end = self._ints(()), self._ints(())
        return made

    def _param(self, p: ParamConfig) -> Param:
        real = BY_SHORT[p.dtype].qnn.startswith("FLOAT")
        scalar = p.shape is None
        values = np.array([p.value] if scalar else p.value, np.float32 if real else np.int64).reshape(-1)
        dtype = "DTFloat32" if real else "DTBool" if p.dtype == "bool8" and scalar else "DTIInt32"
        stored = np.ascontiguousarray(
            values if real else values.astype(np.uint8 if dtype == "DTBool" else np.int32)
        )
        self._keep.append(stored)
        return Param(
            stored.ctypes.data, DATA_TYPES.index(dtype), p.name.encode(), 0 if scalar else stored.size
        )

    def arrays(self) -> tuple[Any, ...]:
        """The leading arguments of functions and kernels of generation 1.17."""
        return (self.inputs, self.counts[0], self.outputs, self.counts[1], self.params, self.counts[2])
