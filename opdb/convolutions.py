"""Convolutions of floats in forms that HTP computes rightly.

HTP 2.47 computes other numbers for a short row that keeps its length (Conv2d.H21): a tap of zero behind the filter, and one
column more behind the row, change nothing but that.  Its compiler moves Reshapes across a convolution to one channel of an
image one wide, as across products (opdb/products.py): as an image one high it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from opdb.products import FLOATS
from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op, tensor_param
from opdb.runtime.tensors import TensorRef, lengthened, permute, reshape

SHORT_ROW = "Conv2d.H21"


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such Conv2d in the other form; ``broken`` gives the rules that an op breaks.

    A filter that is no constant stays as it is: what it breaks is a reason not to lower it.
    """
    return replace(lowered, ops=tuple(_mended(op, broken) for op in lowered.ops))


def _mended(op: LoweredOp, broken: Callable[[LoweredOp], Collection[str]]) -> LoweredOp:
    if op.op != "Conv2d" or {t.dtype for t in op.inputs[:2] if t is not None} - FLOATS:
        return op
    if _is_column(op):
        op = _as_row(op)
    weight = op.inputs[1]
    if weight is not None and weight.static and not weight.made and SHORT_ROW in broken(op):
        return _with_a_tap_of_zero(op)
    return op


def _is_column(op: LoweredOp) -> bool:
    """Whether it makes one channel of an image one wide, by more than one tap."""
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    return x.shape[2] == op.outputs[0].shape[2] == weight.shape[3] == 1 and weight.shape[:2] != (1, 1)


def _as_row(op: LoweredOp) -> LoweredOp:
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    given = _params(op)
    turned = {name: values[::-1] for name, values in given.items()}
    return _conv2d(op, _turned(x), permute(weight, [1, 0, 2, 3]), _turned(op.outputs[0]), turned)


def _turned(t: TensorRef) -> TensorRef:
    n, height, width, channels = t.shape
    return reshape(t, [n, width, height, channels])


def _with_a_tap_of_zero(op: LoweredOp) -> LoweredOp:
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    given = _params(op)
    (before, after), further = given["pad_amount"][1], given.get("dilation", [1, 1])[1]
    pads = {"pad_amount": [given["pad_amount"][0], [before, after + further]]}
    return _conv2d(op, x, lengthened(weight, [0, 1, 0, 0]), op.outputs[0], pads)


def _params(op: LoweredOp) -> dict[str, Any]:
    """The parameters for height and width as lists."""
    found: dict[str, Any] = {}
    for p in op.params:
        if p.shape == (2,):
            found[p.name] = list(p.value)
        elif p.shape == (2, 2):
            found[p.name] = [list(p.value[:2]), list(p.value[2:])]
    return found


def _conv2d(
    op: LoweredOp, x: TensorRef, weight: TensorRef, y: TensorRef, changed: dict[str, Any]
) -> LoweredOp:
    return lowered_op(
        "Conv2d",
        inputs={"x": x, "filter": weight, "bias": op.inputs[2] if len(op.inputs) > 2 else None},
        params=[tensor_param(p.name, "u32", changed[p.name]) if p.name in changed else p for p in op.params],
        outputs={"y": y},
        package=op.package,
    )
