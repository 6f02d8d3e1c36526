"""Operators that move elements: reshaping, transposes, slices, concatenation, padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite

from opdb.programs.tflite.graph import Call, Unreadable, is_stored


def _reshape(call: Call) -> None:
    """Reshapes to the result's shape: Reshape, Squeeze and ExpandDims leave no dimension open in a file."""
    call.give(call.reshaped(call.floats(0), call.result().shape))


def _transpose(call: Call) -> None:
    call.give(call.turned(call.floats(0), [int(a) for a in call.known(1, "permutation")]))


def _concatenation(call: Call) -> None:
    options = call.options(tflite.ConcatenationOptions)
    parts = [call.floats(i) for i in range(len(call.operator.inputs))]
    made = call.node("Concat", *parts, axis=options.Axis())
    call.give(call.activated(made, options.FusedActivationFunction()))


def _pack(call: Call) -> None:
    axis = call.options(tflite.PackOptions).Axis() % len(call.result().shape)
    shape = list(call.result().shape)
    shape[axis] = 1
    parts = [call.reshaped(call.floats(i), shape) for i in range(len(call.operator.inputs))]
    call.give(parts[0] if len(parts) == 1 else call.node("Concat", *parts, axis=axis))


def _unpack(call: Call) -> None:
    axis = call.options(tflite.UnpackOptions).Axis() % len(call.shape(0))
    for i, part in enumerate(_parts(call, call.floats(0), axis, [1] * call.shape(0)[axis])):
        call.give(call.reshaped(part, call.result(i).shape), i)


def _split(call: Call) -> None:
    """Inputs: the axis, then the tensor."""
    axis = int(call.known(0, "axis").reshape(())) % len(call.shape(1))
    count = len(call.operator.outputs)
    for i, part in enumerate(_parts(call, call.floats(1), axis, [call.shape(1)[axis] // count] * count)):
        call.give(part, i)


def _split_v(call: Call) -> None:
    axis = int(call.known(2, "axis").reshape(())) % len(call.shape(0))
    sizes = [call.result(i).shape[axis] for i in range(len(call.operator.outputs))]
    for i, part in enumerate(_parts(call, call.floats(0), axis, sizes)):
        call.give(part, i)


def _parts(call: Call, name: str, axis: int, sizes: list[int]) -> list[str]:
    if len(sizes) == 1:
        return [name]
    return call.several("Split", name, call.ints(sizes), outputs=len(sizes), axis=axis)


def _slice(call: Call) -> None:
    begin = [int(v) for v in call.known(1, "begin")]
    sizes = call.result().shape
    ends = [b + s for b, s in zip(begin, sizes, strict=True)]
    call.give(call.node("Slice", call.floats(0), call.ints(begin), call.ints(ends)))


def _strided_slice(call: Call) -> None:
    options, shape = call.options(tflite.StridedSliceOptions), call.shape(0)
    if options.EllipsisMask() or options.NewAxisMask():
        raise Unreadable("an ellipsis or a new axis in its slice")
    begin, end, strides = (
        [int(v) for v in call.known(i, what)] for i, what in ((1, "begin"), (2, "end"), (3, "strides"))
    )
    starts, stops = [], []
    for d, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        if options.ShrinkAxisMask() >> d & 1:
            first = first % shape[d]
            starts.append(first)
            stops.append(first + 1)
            strides[d] = 1
            continue
        open_start, open_stop = options.BeginMask() >> d & 1, options.EndMask() >> d & 1
        places = slice(None if open_start else first, None if open_stop else last, step).indices(shape[d])
        starts.append(places[0])
        stops.append(places[1] if places[1] >= 0 else -shape[d] - 1)
    axes = call.ints(range(len(starts)))
    made = call.node("Slice", call.floats(0), call.ints(starts), call.ints(stops), axes, call.ints(strides))
    call.give(call.reshaped(made, call.result().shape) if options.ShrinkAxisMask() else made)


def _pad(call: Call) -> None:
    """PADV2 has the value as its third input; PAD's is zero."""
    value = [call.scalar(call.number(2, "value"))] if call.has(2) else []
    call.give(call.node("Pad", call.floats(0), _ends(call), *value))


def _mirror_pad(call: Call) -> None:
    if call.options(tflite.MirrorPadOptions).Mode() != tflite.MirrorPadMode.REFLECT:
        raise Unreadable("the mode SYMMETRIC, which repeats the edge; QNN's Pad has it, and ONNX's does not")
    call.give(call.node("Pad", call.floats(0), _ends(call), mode="reflect"))


def _ends(call: Call) -> str:
    paddings = call.known(1, "paddings").astype(np.int64)
    return call.ints([*paddings[:, 0].tolist(), *paddings[:, 1].tolist()])


def _tile(call: Call) -> None:
    repeats = call.ints([int(n) for n in call.known(1, "multiples")])
    call.give(call.node("Tile", call.floats(0), repeats))


def _broadcast_to(call: Call) -> None:
    call.give(call.node("Expand", call.floats(0), call.ints(call.result().shape)))


def _fill(call: Call) -> None:
    call.give(call.node("Expand", call.floats(1), call.ints(call.result().shape)))


def _reverse_v2(call: Call) -> None:
    axes = [int(a) for a in np.atleast_1d(call.known(1, "axes"))]
    count = len(axes)
    ends = [-call.shape(0)[a] - 1 for a in axes]
    made = call.node(
        "Slice",
        call.floats(0),
        call.ints([-1] * count),
        call.ints(ends),
        call.ints(axes),
        call.ints([-1] * count),
    )
    call.give(made)


def _shape(call: Call) -> None:
    if is_stored(call.result()):
        raise Unreadable("a shape with an encoding")
    shape = np.asarray(call.shape(0), call.result().kind)
    call.give_stored(call.graph.constant(f"{call.result().name}/shape", shape))


OPERATORS: dict[str, Callable[[Call], None]] = {
    "BROADCAST_TO": _broadcast_to,
    "CONCATENATION": _concatenation,
    "EXPAND_DIMS": _reshape,
    "FILL": _fill,
    "MIRROR_PAD": _mirror_pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "REVERSE_V2": _reverse_v2,
    "SHAPE": _shape,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "SQUEEZE": _reshape,
    "STRIDED_SLICE": _strided_slice,
    "TILE": _tile,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
