"""Convolutions in forms that HTP computes rightly.

Of floats HTP 2.47 computes other numbers for a short row that keeps its length (Conv2d.H21), and where more zeros stand before
an image than the filter spans (Conv2d.H22); of any type, by steps of 2, where a filter one wide has zeros left of the image, or
one high zeros above it (Conv2d.H23).  Taps of zero behind the filter, and as many zeros more behind the image, change nothing
but that.  The compiler moves Reshapes across a convolution to one channel of an image one wide, as across products
(opdb/htp/products.py): as an image one high it is right.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from opdb.errata.htp.products import FLOATS
from opdb.runtime.lowering import Lowered, LoweredOp, tensor_param
from opdb.runtime.tensors import TensorRef, lengthened, permute, reshape

SHORT_ROW = "Conv2d.H21"
FAR_BEFORE = {"Conv2d": "Conv2d.H22", "DepthWiseConv2d": "DepthWiseConv2d.H16", "Conv3d": "Conv3d.H11"}
ONE_WIDE = {"Conv2d": "Conv2d.H23", "DepthWiseConv2d": "DepthWiseConv2d.H17", "Conv3d": "Conv3d.H12"}
RULES = frozenset({SHORT_ROW, *FAR_BEFORE.values(), *ONE_WIDE.values()})


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such convolutions in the other form; ``broken`` gives the rules that an op breaks.

    A filter that is no constant stays as it is: what it breaks is a reason not to lower it.
    """
    return replace(lowered, ops=tuple(_mended(op, broken) for op in lowered.ops))


def _mended(op: LoweredOp, broken: Callable[[LoweredOp], Collection[str]]) -> LoweredOp:
    if op.op not in FAR_BEFORE:
        return op
    floats = not {t.dtype for t in op.inputs[:2] if t is not None} - FLOATS
    if op.op == "Conv2d" and floats and _is_column(op):
        op = _as_row(op)
    weight = op.inputs[1]
    rules = broken(op) if weight is not None and weight.static and not weight.made else ()
    if SHORT_ROW in rules:
        return _with_taps_of_zero(op, 0, 1)
    if ONE_WIDE[op.op] in rules:
        return _with_taps_of_zero(op, *((0, 1) if _taps(op)[1] == 1 else (1, 0)))
    if FAR_BEFORE[op.op] in rules:
        (top, _), (left, _) = _params(op)["pad_amount"][-2:]
        height, width = _taps(op)
        return _with_taps_of_zero(op, max(0, top % 8 + 1 - height), max(0, left % 4 + 1 - width))
    return op


def _taps(op: LoweredOp) -> tuple[int, int]:
    weight = op.inputs[1]
    assert weight is not None
    return weight.shape[-4], weight.shape[-3]


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
    return _convolution(op, _turned(x), permute(weight, [1, 0, 2, 3]), _turned(op.outputs[0]), turned)


def _turned(t: TensorRef) -> TensorRef:
    n, height, width, channels = t.shape
    return reshape(t, [n, width, height, channels])


def _with_taps_of_zero(op: LoweredOp, height: int, width: int) -> LoweredOp:
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    given = _params(op)
    *others, (top, bottom), (left, right) = given["pad_amount"]
    down, along = given.get("dilation", [1, 1])[-2:]
    pads = [*others, [top, bottom + height * down], [left, right + width * along]]
    more = [0] * (weight.rank - 4) + [height, width, 0, 0]
    return _convolution(op, x, lengthened(weight, more), op.outputs[0], {"pad_amount": pads})


def _params(op: LoweredOp) -> dict[str, Any]:
    """The parameters for each dimension of space, as lists."""
    found: dict[str, Any] = {}
    for p in op.params:
        if p.shape is not None and len(p.shape) == 1:
            found[p.name] = list(p.value)
        elif p.shape is not None:
            found[p.name] = [list(p.value[i : i + 2]) for i in range(0, len(p.value), 2)]
    return found


def _convolution(
    op: LoweredOp, x: TensorRef, weight: TensorRef, y: TensorRef, changed: dict[str, Any]
) -> LoweredOp:
    params = (tensor_param(p.name, "u32", changed[p.name]) if p.name in changed else p for p in op.params)
    return replace(op, inputs=(x, weight, *op.inputs[2:]), params=tuple(params), outputs=(y,))
