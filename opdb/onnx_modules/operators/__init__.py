"""What each of ONNX's operators is in PyTorch, by the name of the operator."""

from __future__ import annotations

from opdb.onnx_modules.node import Operator
from opdb.onnx_modules.operators import (
    attention,
    elements,
    images,
    indexing,
    norms,
    products,
    quantized,
    recurrent,
    reductions,
    shapes,
    windows,
)

OPERATORS: dict[str, Operator] = {
    name: operator
    for room in (
        attention,
        elements,
        images,
        indexing,
        norms,
        products,
        quantized,
        recurrent,
        reductions,
        shapes,
        windows,
    )
    for name, operator in room.OPERATORS.items()
}
