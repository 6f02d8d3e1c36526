"""A function for each of TFLite's operators, which writes its ONNX nodes; by the operator's name in TFLite's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opdb.tflite_to_onnx.graph import Call
from opdb.tflite_to_onnx.operators import elements, images, indexing, moves, products, reductions

OPERATORS: Mapping[str, Callable[[Call], None]] = {
    name: write
    for room in (elements, images, indexing, moves, products, reductions)
    for name, write in room.OPERATORS.items()
}
