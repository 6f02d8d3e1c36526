"""Estimates the cost of a graph on a chip with Qualcomm's own simulation: no device, one finalization.

    found = estimate(graph, "SA8255", trace=True)     # 2.51 of the library; found.us, found.groups
    compare(estimate(before, "SA8255"), estimate(after, "SA8255")).ratio

``simulator`` asks the library, ``figures`` holds its results, ``trace`` and ``groups`` read its trace, ``difference`` compares
two estimates, ``report`` makes text, tables and a picture.
docs/guides/cost.md describes how accurate an estimate is.
"""

from opdb.measure.cost.difference import Difference, compare
from opdb.measure.cost.figures import Estimate, Group, NotEstimated, SimulatedChip
from opdb.measure.cost.simulator import Simulator, estimate

__all__ = [
    "Difference",
    "Estimate",
    "Group",
    "NotEstimated",
    "SimulatedChip",
    "Simulator",
    "compare",
    "estimate",
]
