"""Quantizes a float graph: observed ranges, encodings by the specs' rules, types by the type rows.

quantized = quantize(graph, calibration, target=Target("HTP", "SM8650"), recipe="16a8w")
"""

from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.observe import observe
from opdb.lower.quantize.propagate import propagate
from opdb.lower.quantize.quantizer import quantize
from opdb.lower.quantize.ranges import Crowded, TensorRange, crowded, ranges_of
from opdb.lower.quantize.recipe import Recipe, named
from opdb.lower.quantize.recipe_types import Asked, Source
from opdb.lower.quantize.weights import WeightType

__all__ = [
    "Asked",
    "Crowded",
    "Range",
    "Recipe",
    "Source",
    "TensorRange",
    "WeightType",
    "crowded",
    "named",
    "observe",
    "propagate",
    "quantize",
    "ranges_of",
]
