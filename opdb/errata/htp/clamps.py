"""Quantized clamps in a form that HTP computes rightly.

Behind another op HTP 2.47 leaves a clamp to the range that y stores, so a limit inside of that range is passed (ReluMinMax.H5
and H6, ElementWiseNeuron.H16 and H17).  What lies beyond the range is cut off by any op: the limits inside are a maximum,
then a minimum.  The other order is made a clamp again, be it of two nodes, unless the maximum's number comes first (probe:
four chips).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, full, intermediate, stored_range

CLAMPS = ("ReluMinMax", "ElementWiseNeuron")
MAXIMUM = "ElementWiseMaximum"
#: An op and its only parameter, ``operation``.
BINARY_MAXIMUM = ("ElementWiseBinary", [10])
RULES = frozenset({"ReluMinMax.H5", "ReluMinMax.H6", "ElementWiseNeuron.H16", "ElementWiseNeuron.H17"})


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such clamps by their limits; ``broken`` gives the rules that an op breaks."""
    if all(op.op not in CLAMPS and not _is_maximum(op) for op in lowered.ops):
        return lowered
    return replace(
        lowered, ops=tuple(new for number, op in enumerate(lowered.ops) for new in _ops(op, number, broken))
    )


def _ops(op: LoweredOp, number: int, broken: Callable[[LoweredOp], Collection[str]]) -> Iterator[LoweredOp]:
    if _is_maximum(op):
        yield _number_first(op)
        return
    if op.op not in CLAMPS or RULES.isdisjoint(broken(op)):
        yield op
        return
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    least, most = (next(p.value for p in op.params if p.name == name) for name in ("min_value", "max_value"))
    lowest, highest = stored_range(y)
    above, below = least > lowest + y.scale / 2, most < highest - y.scale / 2
    if not above and not below:  # at the very edge, by rounding: the rule is a reason to refuse it
        yield op
    if above:
        higher = intermediate(f"at_least_{number}", y.shape, y) if below else y
        yield _number_first(_limited(MAXIMUM, x, least, higher))
        x = higher
    if below:
        yield _limited("ElementWiseMinimum", x, most, y)


def _limited(op: str, x: TensorRef, limit: float, y: TensorRef) -> LoweredOp:
    return lowered_op(op, inputs={"a": x, "b": full([1], limit, x)}, params=[], outputs={"y": y})


def _is_maximum(op: LoweredOp) -> bool:
    return op.op == MAXIMUM or (op.op, [p.value for p in op.params]) == BINARY_MAXIMUM


def _number_first(op: LoweredOp) -> LoweredOp:
    """A quantized maximum, with the operand of one element before the other one."""
    x, number = op.inputs
    assert x is not None and number is not None
    if op.outputs[0].encoding != "SCALE_OFFSET" or math.prod(number.shape) != 1:
        return op
    return replace(op, inputs=(number, x))
