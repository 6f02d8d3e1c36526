"""Products of floats between views, as ops that HTP computes correctly there.

HTP's compiler moves Reshapes across a product of floats.  If a view has rows and columns in one dimension, or if the
columns are split on both sides, a quarter of the chains around a FullyConnected gives wrong numbers or is not finalized,
and so does a MatMul of [M, P * Q], seen from [M, P, Q], that is seen as [M, 1, N] (benchmarks/htp_views.py).  As a Conv2d of
rows, none of 4,000 chains is wrong; as a MatMul whose second matrix is transposed, for weights that are not constants, 2 of
2,500.  A MatMul of four dimensions is wrong in one of ten chains in which the first dimension has several elements, comes from
a view and meets one of the second input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import TensorRef, permute, reshape, tiled

FLOATS = {"f16", "f32"}


def copies_of_matrices(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A MatMul with a copy of the second matrices for each element of the first dimension."""
    first, second = (*op.inputs, None, None)[:2]
    if op.op != "MatMul" or first is None or second is None or {first.dtype, second.dtype} - FLOATS:
        return None
    if len(first.shape) != 4 or len(second.shape) != 4 or first.shape[0] == 1 or second.shape[0] != 1:
        return None
    copies = tiled(second, [first.shape[0], *second.shape[1:]])
    return [replace(op, inputs=(first, copies, *op.inputs[2:]))]


def of_rows(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A product of rows by one matrix as a Conv2d of an image of width 1, or as a MatMul if the weights are not constants."""
    weight = _weight(op)
    rows = op.inputs[0] if op.inputs else None
    if weight is None or rows is None or rows.static or 0 in weight.shape:
        return None
    if {rows.dtype, weight.dtype} - FLOATS or not facts.surroundings.between_views():
        return None
    bias = op.inputs[2] if len(op.inputs) > 2 else None
    return [_product(rows, weight, bias, op.outputs[0])]


def by_transposed(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A 1-by-1 Conv2d of floats on an image of height or width 1 as a MatMul, if a view has five dimensions."""
    x, weight, bias = (*op.inputs, None, None)[:3]
    if op.op != "Conv2d" or x is None or weight is None or {x.dtype, weight.dtype} - FLOATS:
        return None
    *taps, k, n = weight.shape
    image = x.shape[1:3]
    if math.prod(taps) != 1 or k != x.shape[3] or 1 not in image or op.outputs[0].shape[1:3] != image:
        return None
    if not any(_in_five(shape, n) for shape in facts.surroundings.shown()):
        return None
    return [_by_transposed(x, permute(reshape(weight, [k, n]), [1, 0]), bias, op.outputs[0])]


def _in_five(shape: Sequence[int], channels: int) -> bool:
    """True for five dimensions that start with 1 and whose last two make up the channels."""
    return len(shape) == 5 and shape[0] == 1 and shape[3] * shape[4] == channels


def rows_first(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """A FullyConnected of x as rows, [rows, K]."""
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    columns = weight.shape[1]
    return [replace(op, inputs=(reshape(x, [math.prod(x.shape) // columns, columns]), *op.inputs[1:]))]


def _weight(op: LoweredOp) -> TensorRef | None:
    """The matrix [N, K] that each row is multiplied by; None for another op, or for several matrices."""
    second = op.inputs[1] if len(op.inputs) > 1 else None
    if op.op == "FullyConnected":
        return second
    transposed = any(p.value for p in op.params if p.name in ("transpose_in0", "transpose_in1"))
    if op.op != "MatMul" or second is None or transposed or math.prod(second.shape[:-2]) != 1:
        return None
    return permute(reshape(second, second.shape[-2:]), [1, 0])


def _product(x: TensorRef, weight: TensorRef, bias: TensorRef | None, y: TensorRef) -> LoweredOp:
    if not weight.static:
        return _by_transposed(x, weight, bias, y)
    n, k = weight.shape
    rows = math.prod(x.shape) // k
    return lowered_op(
        "Conv2d",
        inputs={
            "x": reshape(x, [1, rows, 1, k]),
            "filter": reshape(permute(weight, [1, 0]), [1, 1, k, n]),
            "bias": bias,
        },
        params=[tensor_param("stride", "u32", [1, 1]), tensor_param("pad_amount", "u32", [[0, 0], [0, 0]])],
        outputs={"y": reshape(y, [1, rows, 1, n])},
    )


def _by_transposed(x: TensorRef, weight: TensorRef, bias: TensorRef | None, y: TensorRef) -> LoweredOp:
    n, k = weight.shape
    rows = math.prod(x.shape) // k
    return lowered_op(
        "MatMul",
        inputs={"a": reshape(x, [rows, k]), "b": weight, "bias": bias},
        params=[scalar("transpose_in1", "bool8", True)],
        outputs={"y": reshape(y, [rows, n])},
    )
