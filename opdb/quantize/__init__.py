"""From a float graph to a quantized one: observed ranges, encodings by the specs' rules, types by the type rows.

quantized = quantize(graph, calibration, activations="uq8", target=Target("HTP", "SM8650"))
"""

from opdb.quantize.encodings import Range
from opdb.quantize.observe import observe
from opdb.quantize.propagate import propagate
from opdb.quantize.quantizer import quantize

__all__ = ["Range", "observe", "propagate", "quantize"]
