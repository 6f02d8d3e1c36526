"""From a float graph to a quantized one: observed ranges, encodings by the specs' rules, types by the type rows.

quantized = quantize(graph, calibration, target=Target("HTP", "SM8650"), recipe="16a8w")
"""

from opdb.quantize.asked import Asked, Source
from opdb.quantize.encodings import Range
from opdb.quantize.observe import observe
from opdb.quantize.propagate import propagate
from opdb.quantize.quantizer import quantize
from opdb.quantize.ranges import Crowded, TensorRange, crowded, ranges_of
from opdb.quantize.recipe import Recipe, named
from opdb.quantize.weights import WeightType

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
