"""Pools of floats in forms that HTP computes correctly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import full, intermediate

CONSTANT = 0  # of Pad.scheme
LEAST = {"f16": -65504.0, "f32": -3e38}


def average_by_channel(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """An average pool as a depthwise convolution with equal weights."""
    return [_by_channel(op)]


def every_second_column(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A max pool of width 1 with stride 2 that takes every second column first.  None if the windows start at other columns."""
    return list(_of_every_second_column(op, facts.number)) or None


def with_least_number(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A max pool over an image that a Pad surrounds with the lowest number there is."""
    return list(_of_a_padded_image(op, facts.number))


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
    x = op.inputs[0]
    assert x is not None
    n, height, width, channels = x.shape
    columns = -(-width // 2)
    zeros = next(p.value for p in op.params if p.name == "pad_amount")
    if op.outputs[0].shape[2] != columns or any(zeros[2:]):
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
