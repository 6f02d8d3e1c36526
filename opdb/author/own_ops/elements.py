"""Computes ``each`` of a spec with numpy in float64, to check the C that is generated from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from opdb.spec.lang.element import REAL, TRUTH, Element

Array = np.ndarray[Any, Any]


def _gelu(v: Array) -> Array:
    return np.asarray(v * _erfc(-v / math.sqrt(2)) / 2)


def _quotient(a: Array, b: Array) -> Array:
    """Division truncated toward zero."""
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


_erfc: Callable[[Array], Array] = np.vectorize(math.erfc, otypes=[np.float64])
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "asin": np.arcsin, "atan": np.arctan, "ceil": np.ceil, "cos": np.cos, "erfc": _erfc,
    "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "fmod": np.fmod, "gelu": _gelu, "isinf": np.isinf,
    "isnan": np.isnan, "log": np.log, "log1p": np.log1p, "maximum": np.maximum, "minimum": np.minimum,
    "quotient": _quotient, "round": np.rint, "sign": np.sign, "sin": np.sin, "sqrt": np.sqrt, "tanh": np.tanh,
}  # fmt: skip
OPERATORS: dict[str, Callable[..., Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide,
    "%": np.remainder, "**": np.power, "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
    ">": np.greater, ">=": np.greater_equal, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def evaluate(node: Element, kind: str, values: Mapping[str, Array]) -> Array:
    """The values of ``node`` for all elements.  ``values``: the inputs and scalar parameters as float64, int64, or bool."""
    if node.kind == "const":
        return np.asarray(node.value, np.float64 if kind == REAL else np.int64)
    if node.kind == "name":
        return values[node.value]
    parts = [evaluate(a, kind, values) for a in node.args]
    with np.errstate(all="ignore"):
        match node.kind:
            case "call":
                return np.asarray(FUNCTIONS[node.value](*parts))
            case "unary":
                return np.logical_not(parts[0]) if node.type == TRUTH else np.negative(parts[0])
            case "if":
                return np.where(parts[1], parts[0], parts[2])
        word = node.value if node.kind in ("binary", "compare") else node.kind
        found = parts[0]
        for other in parts[1:]:
            found = OPERATORS[word](found, other)
        return np.asarray(found)
