"""Sums of quantized tensors and constants in a form that HTP computes correctly.

HTP drops constants of one element, or of one per element of the last dimension, that are added after some ops:
relu(x * c) + d becomes relu(x * c), and the same happens after a TransposeConv2d or its Relu.  Their negatives are subtracted
instead.  In 16 bits they are still added if the constant lies beyond what the result stores: HTP fuses that difference with a
Quantize before it into the smallest number there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, intermediate, negated, opposite, stored_range

SUM = "ElementWiseAdd"
#: HTP drops constants that ops compute only in these types; in 16 bits they are computed correctly.
EIGHT_BITS = ("uq8", "sq8")


def negative_subtracted(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """Replaces the sum of a quantized tensor and a constant by a difference."""
    constant, x = _constant(op, facts) if op.op == SUM else (None, None)
    if constant is None or x is None:
        return None
    if constant.dtype not in EIGHT_BITS and _beyond(constant, op.outputs[0]):
        return None
    made = []
    if constant.static:
        less = negated(constant)
    else:
        name = f"negative_{facts.number}"
        less = replace(intermediate(name, constant.shape, constant), quant=opposite(constant))
        made = [lowered_op("ElementWiseNeg", inputs={"x": constant}, params=[], outputs={"y": less})]
    difference = lowered_op(
        "ElementWiseSubtract", inputs={"a": x, "b": less}, params=[], outputs={"y": op.outputs[0]}
    )
    return [*made, difference]


def _beyond(constant: TensorRef, y: TensorRef) -> bool:
    """True if ``constant`` stores numbers that ``y`` cannot."""
    (least, most), (lowest, highest) = stored_range(constant), stored_range(y)
    return least < lowest - y.scale or most > highest + y.scale


def _constant(op: LoweredOp, facts: Facts) -> tuple[TensorRef | None, TensorRef | None]:
    """The constant of one element, or of one per element of the last dimension, and the tensor that it is added to."""
    for x, other in (op.inputs, op.inputs[::-1]):
        assert x is not None and other is not None
        if other.encoding == "SCALE_OFFSET" and math.prod(other.shape[:-1]) == 1 and math.prod(x.shape) > 1:
            constant = facts.surroundings.constant_source(other)
            if constant is not None and (constant.static or constant.dtype in EIGHT_BITS):
                return constant, x
    return None, None
