"""Pools of floats in forms that HTP computes rightly.

HTP 2.47 computes other means for windows that move by one over an image without zeros around it, where the result is high and
narrow (PoolAvg2d.H3): each channel is convolved with the window's weights instead.  A process that executes a maximum of
windows one wide by steps of 2 ends (PoolMax2d.H3): every second column is taken before.  For v68 it takes what lies around an image
for 0, of which a maximum of negative numbers makes 0 (PoolMax2d.H4): less than any number is put there before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import full, intermediate

NARROW, ONE_WIDE, OF_ZEROS = "PoolAvg2d.H3", "PoolMax2d.H3", "PoolMax2d.H4"
CONSTANT = 0  # of Pad.scheme
LEAST = {"f16": -65504.0, "f32": -3e38}
Broken = Callable[[LoweredOp], Collection[str]]


def mended(lowered: Lowered, broken: Broken) -> Lowered:
    """``lowered`` with such pools in the other form; ``broken`` gives the rules that an op breaks."""
    if all(op.op not in ("PoolAvg2d", "PoolMax2d") for op in lowered.ops):
        return lowered
    return replace(lowered, ops=tuple(_ops(lowered.ops, broken)))


def _ops(ops: tuple[LoweredOp, ...], broken: Broken) -> Iterator[LoweredOp]:
    for number, op in enumerate(ops):
        rules = broken(op) if op.op in ("PoolAvg2d", "PoolMax2d") else ()
        if NARROW in rules:
            yield _by_channel(op)
        elif OF_ZEROS in rules:
            yield from _of_a_padded_image(op, number)
        elif ONE_WIDE in rules:
            yield from _of_every_second_column(op, number)
        else:
            yield op


def _by_channel(op: LoweredOp) -> LoweredOp:
    x = op.inputs[0]
    assert x is not None
    given = {p.name: p for p in op.params}
    height, width = given["filter_size"].value
    return lowered_op(
        "DepthWiseConv2d",
        inputs={"x": x, "filter": full([height, width, 1, x.shape[3]], 1 / (height * width), x)},
        params=[given["stride"], given["pad_amount"]],
        outputs={"y": op.outputs[0]},
    )


def _of_every_second_column(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    """As it is where the windows begin elsewhere: what it breaks is a reason not to lower it."""
    x = op.inputs[0]
    assert x is not None
    n, height, width, channels = x.shape
    columns = -(-width // 2)
    zeros = next(p.value for p in op.params if p.name == "pad_amount")
    if op.outputs[0].shape[2] != columns or any(zeros[2:]):
        yield op
        return
    inner = intermediate(f"columns_{number}", [n, height, columns, channels], x)
    ranges = [[0, n, 1], [0, height, 1], [0, width, 2], [0, channels, 1]]
    yield lowered_op(
        "StridedSlice",
        inputs={"x": x},
        params=[tensor_param("ranges", "i32", ranges)],
        outputs={"y": inner},
    )
    steps = tensor_param("stride", "u32", [2, 1])
    params = tuple(steps if p.name == "stride" else p for p in op.params)
    yield replace(op, inputs=(inner, *op.inputs[1:]), params=params)


def _of_a_padded_image(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    x = op.inputs[0]
    assert x is not None
    top, bottom, left, right = next(p.value for p in op.params if p.name == "pad_amount")
    amounts = [[0, 0], [top, bottom], [left, right], [0, 0]]
    shape = [size + sum(amount) for size, amount in zip(x.shape, amounts, strict=True)]
    padded = intermediate(f"padded_{number}", shape, x)
    yield lowered_op(
        "Pad",
        inputs={"x": x},
        params=[
            scalar("scheme", "u32", CONSTANT),
            tensor_param("pad_amount", "u32", amounts),
            scalar("pad_constant_value", "f32", LEAST[x.dtype]),
        ],
        outputs={"y": padded},
    )
    none = tensor_param("pad_amount", "u32", [[0, 0], [0, 0]])
    params = tuple(none if p.name == "pad_amount" else p for p in op.params)
    yield replace(op, inputs=(padded, *op.inputs[1:]), params=params)
