"""Products of floats and constants, near tensors of five dimensions, in a form of which HTP finalizes graphs.

HTP 2.47 moves a product by a constant of one element, or of one for each channel, across what reads it (from v73, in half
precision).  Where one of the two tensors has five dimensions and the other not, and where a constant is added behind, it finalizes
no graph (88 of 200 reshapes and permutations behind such a product, a BatchNorm3d, a MaxPool3d, `x * 1.25 + 0.5`; probe: SM8550,
SM8650, SM8750, not SM8350).  A product whose constant comes first stays where it is: 0 of 300 (probe: SM8650).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from opdb.errata.htp.products import FLOATS
from opdb.errata.htp.sums import Known
from opdb.runtime.lowering import Lowered, LoweredOp

PRODUCT = "ElementWiseMultiply"
#: An op and its only parameter, ``operation``.
BINARY_PRODUCT = ("ElementWiseBinary", [13])


def mended(lowered: Lowered, ranks: Container[int], known: Known) -> Lowered:
    """``lowered`` with the constants of such products first.

    ``ranks``: of the node's results and of what is made of them; ``known``: what is known of a tensor before the program runs.
    """
    if 5 not in ranks:
        return lowered
    return replace(lowered, ops=tuple(_constant_first(op, known) for op in lowered.ops))


def _constant_first(op: LoweredOp, known: Known) -> LoweredOp:
    if op.op != PRODUCT and (op.op, [p.value for p in op.params]) != BINARY_PRODUCT:
        return op
    x, factor = op.inputs
    assert x is not None and factor is not None
    if x.dtype not in FLOATS or known(x) is not None or known(factor) is None:
        return op
    return replace(op, inputs=(factor, x))
