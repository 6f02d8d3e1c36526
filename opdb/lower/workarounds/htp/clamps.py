"""Quantized clamps and maxima in forms that HTP computes correctly.

HTP reduces a clamp after another op to the range that y stores, so values pass a limit inside that range.  Every op cuts
off what lies beyond the range: a limit inside the range becomes a maximum, then a minimum.  HTP fuses the opposite order
into a clamp again, even across two nodes, unless the number of the maximum comes first (probe: four chips).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, full, intermediate, stored_range

MAXIMUM = "ElementWiseMaximum"
#: An op and its only parameter, ``operation``.
BINARY_MAXIMUM = ("ElementWiseBinary", [10])


def by_limits(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A clamp as a maximum, a minimum, or both.  None if the limits differ from the range by no more than rounding."""
    return list(_by_limits(op, facts.number)) or None


def _by_limits(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    least, most = (next(p.value for p in op.params if p.name == name) for name in ("min_value", "max_value"))
    lowest, highest = stored_range(y)
    above, below = least > lowest + y.scale / 2, most < highest - y.scale / 2
    if above:
        higher = intermediate(f"at_least_{number}", y.shape, y) if below else y
        yield _first(_limited(MAXIMUM, x, least, higher))
        x = higher
    if below:
        yield _limited("ElementWiseMinimum", x, most, y)


def number_first(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A quantized maximum of a tensor and a number, with the number as the first operand."""
    if op.op != MAXIMUM and (op.op, [p.value for p in op.params]) != BINARY_MAXIMUM:
        return None
    new = _first(op)
    return None if new is op else [new]


def _limited(op: str, x: TensorRef, limit: float, y: TensorRef) -> LoweredOp:
    return lowered_op(op, inputs={"a": x, "b": full([1], limit, x)}, params=[], outputs={"y": y})


def _first(op: LoweredOp) -> LoweredOp:
    x, number = op.inputs
    assert x is not None and number is not None
    if op.outputs[0].encoding != "SCALE_OFFSET" or math.prod(number.shape) != 1:
        return op
    return replace(op, inputs=(number, x))
