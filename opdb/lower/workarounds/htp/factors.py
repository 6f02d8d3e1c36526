"""Products of floats and constants near tensors of five dimensions, in a form that HTP finalizes.

HTP moves a product by a constant of one element, or of one per channel, across the op that reads it.  It finalizes no
graph in which one of the two tensors has five dimensions and the other does not, nor one in which a constant is added
afterward.  A product whose constant comes first stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opdb.lower.workarounds.htp.products import FLOATS
from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp

PRODUCT = "ElementWiseMultiply"
#: An op and its only parameter, ``operation``.
BINARY_PRODUCT = ("ElementWiseBinary", [13])


def constant_first(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A product of a float tensor and a constant, with the constant as the first operand."""
    if op.op != PRODUCT and (op.op, [p.value for p in op.params]) != BINARY_PRODUCT:
        return None
    x, factor = op.inputs
    assert x is not None and factor is not None
    known = facts.surroundings.constant_source
    if x.dtype not in FLOATS or known(x) is not None or known(factor) is None:
        return None
    return [replace(op, inputs=(factor, x))] if 5 in facts.surroundings.read_in_ranks() else None
