"""The values of static tensors that builders create or change, as numpy arrays; for all sinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.runtime.tensors import TensorRef, Transform


def made_values(t: TensorRef) -> np.ndarray[Any, Any]:
    """The values of a builder's tensor before its transforms; bfloat16 as the upper halves of float32."""
    if t.ramp is not None:
        return ramp_values(t)
    values = np.full(t.base_shape, t.fill) if t.data is None else np.reshape(t.data, t.base_shape)
    dtype = BY_SHORT[t.dtype]
    if dtype.short == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.dtype(str(dtype.numpy)))


def ramp_values(t: TensorRef) -> np.ndarray[Any, Any]:
    """The values of a tensor with a ramp, before its transforms; int32 or bool."""
    assert t.ramp is not None
    values: np.ndarray[Any, Any] = np.full(t.base_shape, t.ramp.start, np.int32)
    for i, step in enumerate(t.ramp.steps):
        along = [-1 if j == i else 1 for j in range(len(t.base_shape))]
        values = values + np.arange(t.base_shape[i], dtype=np.int32).reshape(along) * np.int32(step)
    return values >= 0 if BY_SHORT[t.dtype].short == "bool8" else values


#: The values of another static tensor, before its transforms.
Values = Callable[[TensorRef], np.ndarray[Any, Any]]


def transformed(
    array: np.ndarray[Any, Any], transforms: Sequence[Transform], values: Values = made_values
) -> np.ndarray[Any, Any]:
    """``array`` after ``transforms``, contiguous and in its own data type."""
    for step in transforms:
        if step.kind == "permute":
            array = array.transpose(step.values)
        elif step.kind == "reshape":
            array = array.reshape(step.values)
        elif step.kind == "tile":
            array = np.tile(array, step.values)
        elif step.kind == "inverse_root":
            array = (1.0 / np.sqrt(array.astype(np.float64) + step.values[0])).astype(array.dtype)
        elif step.kind in ("times", "minus"):
            other = transformed(values(step.values[0]), step.values[0].transforms, values).astype(np.float64)
            wide = array.astype(np.float64)
            array = (wide * other if step.kind == "times" else wide - other).astype(array.dtype)
        elif step.kind == "dequantize":
            array = _dequantized(array, *step.values)
        elif step.kind == "diagonal":
            array = _diagonal(array, *step.values)
        elif step.kind == "spaced":
            array = _spaced(array, step.values[0], step.values[1:])
        elif step.kind == "lengthened":
            ends = [(0, more) for more in step.values[1:]]
            array = np.pad(array, ends, constant_values=step.values[0])
        elif step.kind == "mod":
            array = np.remainder(array, array.dtype.type(step.values[0]))
        elif step.kind == "from":
            array = (step.values[0] - array.astype(np.int64)).astype(array.dtype)
        else:
            array = array * array.dtype.type(step.values[0])
    return np.ascontiguousarray(array)


def _dequantized(
    array: np.ndarray[Any, Any], scales: Sequence[float], offsets: Sequence[int], axis: int
) -> np.ndarray[Any, Any]:
    """The dequantized values of stored integers, in float32; one scale for all, or one per index along ``axis``."""
    shape = [-1 if i == axis else 1 for i in range(array.ndim)] if axis >= 0 else []
    scale, offset = np.reshape(scales, shape), np.reshape(offsets, shape)
    result: np.ndarray[Any, Any] = ((array.astype(np.float64) + offset) * scale).astype(np.float32)
    return result


def _diagonal(array: np.ndarray[Any, Any], zero: int, groups: int) -> np.ndarray[Any, Any]:
    """Places block g of the rows in block g of the columns, with ``zero`` elsewhere."""
    rows, columns = array.shape[0] // groups, array.shape[1]
    wide = np.full((array.shape[0], columns * groups, *array.shape[2:]), zero, array.dtype)
    for g in range(groups):
        wide[g * rows : (g + 1) * rows, g * columns : (g + 1) * columns] = array[g * rows : (g + 1) * rows]
    return wide


def _spaced(array: np.ndarray[Any, Any], zero: int, steps: Sequence[int]) -> np.ndarray[Any, Any]:
    """Inserts ``steps[i]`` - 1 times ``zero`` between neighbors along dimension i + 2."""
    kernel = [step * (d - 1) + 1 for d, step in zip(array.shape[2:], steps, strict=True)]
    wide = np.full((*array.shape[:2], *kernel), zero, array.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, step) for step in steps))] = array
    return wide
