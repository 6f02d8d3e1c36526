"""Mean pools of floats in a form that HTP computes rightly.

HTP 2.47 computes other numbers for windows that move by one over an image without zeros around it, where the result is high
and narrow (PoolAvg2d.H3): each channel is convolved with the window's weights instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op
from opdb.runtime.tensors import full

NARROW = "PoolAvg2d.H3"


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such pools as a DepthWiseConv2d; ``broken`` gives the rules that an op breaks."""
    return replace(lowered, ops=tuple(_mended(op, broken) for op in lowered.ops))


def _mended(op: LoweredOp, broken: Callable[[LoweredOp], Collection[str]]) -> LoweredOp:
    if op.op != "PoolAvg2d" or NARROW not in broken(op):
        return op
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
