"""Ops in forms that HTP's library computes rightly, where it accepts others and computes them wrongly, or finalizes no
graph of them.

A module for each kind of op; ``mended`` applies all of them to what a node was lowered to.  Rules that only warn
(``expect``, in the op's spec) say where HTP 2.47 computes other numbers: a verdict warns of them, and a node is not lowered to
ops that break one of ``RULES``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from opdb.errata.htp import clamps, convolutions, factors, gathers, pads, pools, products, sums
from opdb.runtime.lowering import Lowered, LoweredOp, NodeView

#: The last ones have no other form here: softplus of many rows, a power of a repeated base, a LogSoftmax of 65 classes, a
#: ReduceSum whose axes descend, a Reshape of floats into 8 bits or of five dimensions, a ScatterNd of long rows, and on v68 a
#: SpaceToDepth of few channels.
RULES = frozenset({
    *clamps.RULES, *convolutions.RULES, *gathers.RULES, pads.BEHIND, pools.NARROW, pools.OF_ZEROS,
    "ElementWiseBinary.H25", "ElementWiseNeuron.H15", "ElementWisePower.H3", "LogSoftmax.H3", "ReduceSum.H8",
    "Reshape.C1", "Reshape.H5", "Reshape.H6", "ScatterNd.H9", "SpaceToDepth.H1",
})  # fmt: skip


def mended(view: NodeView, lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` in such forms; ``broken`` gives the rules of HTP that an op breaks."""
    lowered = products.mended(lowered, view.between_views())
    lowered = factors.mended(lowered, view.read_in_ranks(), view.known)
    lowered = sums.mended(lowered, view.known)
    for kind in (pools, convolutions, pads, gathers, clamps):
        lowered = kind.mended(lowered, broken)
    return lowered
