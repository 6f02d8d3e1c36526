"""Tensors in another layout, and weights whose rows follow the order of a flattened input."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import Quant
from opdb.lower.passes.edit import Edit, parameter
from opdb.lower.passes.layouts import Layout, identity, stored_shape
from opdb.runtime.axes import OF_AXIS, OF_TENSOR


def stored(t: GraphTensor, layout: Layout) -> GraphTensor | None:
    """A tensor as stored in a layout; one of lower rank first gets leading dimensions of size 1.

    None if its encoding, or the packing of its numbers, does not allow it.
    """
    missing = len(layout) - len(t.shape)
    if missing == 0 and layout == identity(len(layout)):
        return t
    shape = (1,) * missing + t.shape
    quant = t.quant
    if quant is not None and quant.encoding not in OF_TENSOR:
        if quant.encoding not in OF_AXIS or quant.axis is None:
            return None
        quant = replace(quant, axis=layout.index(quant.axis + missing))
    data = t.data
    if data is not None:
        array = np.asarray(data)
        if array.size != math.prod(shape):
            return None
        data = np.ascontiguousarray(array.reshape(shape).transpose(layout))
    return replace(t, shape=stored_shape(shape, layout), quant=quant, data=data)


def reads_rows(edit: Edit, op: GraphOp, slot: int) -> bool:
    """True if an op multiplies the last dimension of an input with rows of a constant that can be reordered."""
    if slot != 0 or len(op.inputs) < 2:
        return False
    x, weights = edit.tensors[str(op.inputs[0])], edit.tensors[str(op.inputs[1])]
    if op.op not in ("FullyConnected", "MatMul") or parameter(op, "transpose_in0", False):
        return False
    if (
        weights.type != "STATIC"
        or weights.data is None
        or np.asarray(weights.data).size != math.prod(weights.shape)
    ):
        return False
    axis = _rows(op, weights)
    return weights.shape[axis] == x.shape[-1] and _any_order(weights.quant, axis)


def _rows(op: GraphOp, weights: GraphTensor) -> int:
    """The dimension of the weights along which an op sums."""
    rank = len(weights.shape)
    last = op.op == "FullyConnected" or bool(parameter(op, "transpose_in1", False))
    return rank - 1 if last or rank == 1 else rank - 2


def _any_order(quant: Quant | None, axis: int) -> bool:
    return (
        quant is None
        or quant.encoding in OF_TENSOR
        or (quant.encoding in OF_AXIS and quant.axis is not None and quant.axis != axis)
    )


def with_rows(op: GraphOp, weights: GraphTensor, sizes: Sequence[int], rows: Layout) -> GraphTensor:
    """The weights of ``op`` with their rows in the order of an input flattened from ``sizes`` in the layout ``rows``."""
    index = np.arange(math.prod(sizes)).reshape(tuple(sizes)).transpose(rows).ravel()
    data = np.asarray(weights.data).reshape(weights.shape)
    return replace(weights, data=np.ascontiguousarray(data.take(index, axis=_rows(op, weights))))
