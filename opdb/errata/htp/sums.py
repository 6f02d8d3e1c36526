"""Sums of quantized tensors and constants in a form that HTP computes rightly.

HTP 2.47 leaves out constants of one element, or of one for each of the last dimension, where they are added behind some ops:
relu(x * c) + d is relu(x * c), and so behind a TransposeConv2d or its Relu (probe: four chips).  Their negatives are
subtracted instead; but not in 16 bits where the constant lies beyond what the result stores: HTP joins that with a Quantize of
a difference before it into the least number there is (probe: SM8650).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, intermediate, negated, opposite, stored_range

#: What is known of a tensor before the program runs: see ``NodeView``.
Known = Callable[[TensorRef], TensorRef | None]
SUM = "ElementWiseAdd"
#: What ops make of constants is left out in these, and right in 16 bits.
EIGHT_BITS = ("uq8", "sq8")


def mended(lowered: Lowered, known: Known) -> Lowered:
    """``lowered`` with such sums as differences; ``known``: see ``NodeView``."""
    if all(op.op != SUM for op in lowered.ops):
        return lowered
    return replace(
        lowered, ops=tuple(new for number, op in enumerate(lowered.ops) for new in _ops(op, number, known))
    )


def _ops(op: LoweredOp, number: int, known: Known) -> Iterator[LoweredOp]:
    constant, x = _constant(op, known) if op.op == SUM else (None, None)
    if (
        constant is None
        or x is None
        or (constant.dtype not in EIGHT_BITS and _beyond(constant, op.outputs[0]))
    ):
        yield op
        return
    if constant.static:
        less = negated(constant)
    else:
        less = replace(intermediate(f"negative_{number}", constant.shape, constant), quant=opposite(constant))
        yield lowered_op("ElementWiseNeg", inputs={"x": constant}, params=[], outputs={"y": less})
    yield lowered_op(
        "ElementWiseSubtract", inputs={"a": x, "b": less}, params=[], outputs={"y": op.outputs[0]}
    )


def _beyond(constant: TensorRef, y: TensorRef) -> bool:
    """Whether ``constant`` stores numbers that ``y`` does not."""
    (least, most), (lowest, highest) = stored_range(constant), stored_range(y)
    return least < lowest - y.scale or most > highest + y.scale


def _constant(op: LoweredOp, known: Known) -> tuple[TensorRef | None, TensorRef | None]:
    """The constant of one element, or of one for each of the last dimension, and what it is added to."""
    for x, other in (op.inputs, op.inputs[::-1]):
        assert x is not None and other is not None
        if other.encoding == "SCALE_OFFSET" and math.prod(other.shape[:-1]) == 1 and math.prod(x.shape) > 1:
            constant = known(other)
            if constant is not None and (constant.static or constant.dtype in EIGHT_BITS):
                return constant, x
    return None, None
