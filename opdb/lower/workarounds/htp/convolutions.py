"""Convolutions in forms that HTP computes correctly.

Taps of zero after the filter, with as many more zeros after the image, leave the numbers of a convolution unchanged and
change the kernel that HTP chooses.  The compiler moves Reshapes across a convolution to one channel of an image of width 1,
as it does across products (``products``): an image of height 1 is computed correctly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opdb.core.op_config import Quant
from opdb.lower.workarounds.htp.products import FLOATS
from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op, tensor_param
from opdb.runtime.tensors import TensorRef, intermediate, lengthened, permute, reshape


def zero_column_behind(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Adds a column of zeros after the filter."""
    return _with_taps_of_zero(op, 0, 1)


def zero_taps_behind(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Adds a column of zeros after the filter; with stride 2 adds zeros that make it square, and at least 3 by 3."""
    return _with_taps_of_zero(op, *taps_behind(_taps(op), _params(op)["stride"]))


def taps_behind(taps: tuple[int, int], stride: Sequence[int]) -> tuple[int, int]:
    """The number of rows and columns of zeros that ``zero_taps_behind`` adds."""
    if list(stride) != [2, 2]:
        return 0, 1
    size = max(3, *taps)
    return size - taps[0], size - taps[1]


def zero_tap_across(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Adds a second column or row of zeros to a filter of width 1 or height 1."""
    return _with_taps_of_zero(op, *((0, 1) if _taps(op)[1] == 1 else (1, 0)))


def filter_as_long_as_padding(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Adds zeros after the filter until it spans the zeros before the image."""
    (top, _), (left, _) = _params(op)["pad_amount"][-2:]
    height, width = _taps(op)
    return _with_taps_of_zero(op, max(0, top % 8 + 1 - height), max(0, left % 4 + 1 - width))


def column_as_row(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Replaces a Conv2d of floats to one channel of an image of width 1 by one of an image of height 1."""
    floats = not {t.dtype for t in op.inputs[:2] if t is not None} - FLOATS
    return [_as_row(op)] if op.op == "Conv2d" and floats and _is_column(op) else None


def in_one_step(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A Conv3d whose result has depth 1, on the part of x that the filter sees, with stride 1."""
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    given = _params(op)
    span = (weight.shape[0] - 1) * given.get("dilation", [1])[0] + 1
    front = given["pad_amount"][0][0]
    seen = min(x.shape[1], span - front)
    if seen < 1:
        return None
    pads = [[front, span - front - seen], *given["pad_amount"][1:]]
    made: list[LoweredOp] = []
    if seen < x.shape[1]:
        shape = [x.shape[0], seen, *x.shape[2:]]
        ranges = tensor_param("ranges", "i32", [[0, n, 1] for n in shape])
        part = intermediate(f"seen_{facts.number}", shape, x)
        made.append(lowered_op("StridedSlice", inputs={"x": x}, params=[ranges], outputs={"y": part}))
        x = part
    steps = {"stride": [1, *given["stride"][1:]], "pad_amount": pads}
    return [*made, _convolution(op, x, weight, op.outputs[0], steps)]


def _taps(op: LoweredOp) -> tuple[int, int]:
    weight = op.inputs[1]
    assert weight is not None
    return weight.shape[-4], weight.shape[-3]


def _is_column(op: LoweredOp) -> bool:
    """True if it makes one channel of an image of width 1, with more than one tap."""
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


def _with_taps_of_zero(op: LoweredOp, height: int, width: int) -> Sequence[LoweredOp] | None:
    """None if the filter's values are only known when the program runs."""
    x, weight = op.inputs[0], op.inputs[1]
    assert x is not None and weight is not None
    if not weight.static or (weight.made and weight.data is None):
        return None
    given = _params(op)
    *others, (top, bottom), (left, right) = given["pad_amount"]
    down, along = given.get("dilation", [1, 1])[-2:]
    pads = [*others, [top, bottom + height * down], [left, right + width * along]]
    more = [0] * (weight.rank - 4) + [height, width, 0, 0]
    return [_convolution(op, x, lengthened(weight, more), op.outputs[0], {"pad_amount": pads})]


def bias_along_axis(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A convolution to one channel, with the one scale of the bias along axis 0."""
    x, weight, bias = op.inputs[:3]
    assert bias is not None and bias.quant is not None
    along = Quant("AXIS_SCALE_OFFSET", bias.quant.scale, bias.quant.offset or (0,), 0)
    return [replace(op, inputs=(x, weight, replace(bias, quant=along), *op.inputs[3:]))]


def _params(op: LoweredOp) -> dict[str, Any]:
    """The parameters with a value per spatial dimension, as lists."""
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
