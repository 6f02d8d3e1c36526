"""From a float graph to a quantized one: observed ranges, encodings by the specs' rules, types by the type rows.

quantized = quantize(graph, calibration, activations="uq8", target=Target("HTP", "SM8650"))
"""

from opdb.quantize.encodings import Range
from opdb.quantize.observe import observe
from opdb.quantize.propagate import propagate
from opdb.quantize.quantizer import SCHEMES, quantize
from opdb.quantize.ranges import Crowded, TensorRange, crowded, ranges_of

__all__ = [
    "SCHEMES",
    "Crowded",
    "Range",
    "TensorRange",
    "crowded",
    "observe",
    "propagate",
    "quantize",
    "ranges_of",
]
