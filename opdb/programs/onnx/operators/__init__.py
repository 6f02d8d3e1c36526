"""ONNX's operators in PyTorch, by operator name."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.programs.onnx.integer_products import DOMAIN
from opdb.programs.onnx.node import Operator
from opdb.programs.onnx.operators import (
    attention,
    elements,
    images,
    indexing,
    integers,
    microsoft,
    norms,
    products,
    quantized,
    recurrent,
    reductions,
    shapes,
    transformers,
    windows,
)

OPERATORS: dict[str, Operator] = (
    {
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
    | integers.OWN
    | transformers.OWN
)
#: ONNX Runtime's operators that it puts into ONNX's own domain.
WITHOUT_SCHEMA = frozenset(transformers.OWN)
#: Operators by domain; ONNX's own is "".
OF_DOMAINS: dict[str, Mapping[str, Operator]] = {
    "": OPERATORS,
    "com.microsoft": {**transformers.OPERATORS, **microsoft.OPERATORS},
    DOMAIN: integers.OF_CHAINS,
}
