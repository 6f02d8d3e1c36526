"""What each of ONNX's operators is in PyTorch, by the name of the operator."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.programs.onnx.chains import DOMAIN
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
#: Operators of ONNX Runtime that it puts into ONNX's own domain.
WITHOUT_SCHEMA = frozenset(transformers.OWN)
#: By the domain, that of ONNX itself "".
OF_DOMAINS: dict[str, Mapping[str, Operator]] = {
    "": OPERATORS,
    "com.microsoft": {**transformers.OPERATORS, **microsoft.OPERATORS},
    DOMAIN: integers.OF_CHAINS,
}
