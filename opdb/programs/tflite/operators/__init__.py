"""Functions that write the ONNX nodes of TFLite's operators, by the operator's name in TFLite's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opdb.programs.tflite.graph import Call
from opdb.programs.tflite.operators import data_movement, elements, images, indexing, products, reductions

OPERATORS: Mapping[str, Callable[[Call], None]] = {
    name: write
    for room in (elements, images, indexing, data_movement, products, reductions)
    for name, write in room.OPERATORS.items()
}
