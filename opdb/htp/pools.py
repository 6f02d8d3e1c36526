"""Pools of floats in forms that HTP computes rightly.

HTP 2.47 computes other means for windows that move by one over an image without zeros around it, where the result is high and
narrow (PoolAvg2d.H3): each channel is convolved with the window's weights instead.  A process that executes a maximum of
windows one wide by steps of 2 ends (PoolMax2d.H3): every second column is taken before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op, tensor_param
from opdb.runtime.tensors import full, intermediate

NARROW, ONE_WIDE = "PoolAvg2d.H3", "PoolMax2d.H3"
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
