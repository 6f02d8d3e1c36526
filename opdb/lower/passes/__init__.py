"""Passes over finished QNN graphs: the same numbers from fewer and cheaper ops.

    made = optimize(graph, target)
    made.graph, made.counts   # the new graph; {"fold-batchnorm": 52, ...}

``pipeline`` defines the passes and runs them in order, ``edit`` is the graph while it changes; the other modules are passes and helpers.
"""

from opdb.lower.passes.image_io import LAYOUTS, channels_last, check_layout
from opdb.lower.passes.pipeline import NAMES, PASSES, Optimized, Pass, check_names, optimize

__all__ = [
    "LAYOUTS", "NAMES", "PASSES", "Optimized", "Pass", "channels_last", "check_layout", "check_names", "optimize",
]  # fmt: skip
