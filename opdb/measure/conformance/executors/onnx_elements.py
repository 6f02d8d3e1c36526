"""ONNX's counterparts of elementwise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.data import function_of
from opdb.measure.conformance.executors.base import Array, NoOracle, Params
from opdb.measure.conformance.executors.onnx_nodes import node

Arrays = Sequence[Array]
#: Functions that are one node without attributes.
SAME = {
    "ABS": "Abs", "ADD": "Add", "AND": "And", "ASIN": "Asin", "ATAN": "Atan", "CEIL": "Ceil", "COS": "Cos", "DIVIDE": "Div",
    "EQUAL": "Equal", "EXP": "Exp", "FLOOR": "Floor", "GELU": "Gelu", "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual", "HARD_SWISH": "HardSwish", "ISNAN": "IsNaN", "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual", "LOG": "Log", "MAXIMUM": "Max", "MINIMUM": "Min", "MULTIPLY": "Mul", "NEG": "Neg",
    "NOT": "Not", "OR": "Or", "PRELU": "PRelu", "RECIPROCAL": "Reciprocal", "RELU": "Relu",
    "ROUND": "Round", "SIGMOID": "Sigmoid", "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt", "SUBTRACT": "Sub",
    "TANH": "Tanh", "XOR": "Xor",
}  # fmt: skip


def _clip(x: Array, low: float, high: float) -> Array:
    return node("Clip", x, np.asarray(low, x.dtype), np.asarray(high, x.dtype))


def _floor_div(x: Arrays, params: Params) -> Array:
    """Corrects for ONNX dividing whole numbers toward zero."""
    a, b = x
    if a.dtype.kind == "f":
        return node("Floor", node("Div", a, b))
    return node("Div", node("Sub", a, node("Mod", a, b)), b)


def _mod(x: Arrays, params: Params) -> Array:
    """Corrects for ONNX's Mod of real numbers having the sign of the dividend."""
    a, b = x
    if a.dtype.kind != "f":
        return node("Mod", a, b)
    return node("Sub", a, node("Mul", b, node("Floor", node("Div", a, b))))


def _not_equal(x: Arrays, params: Params) -> Array:
    return node("Not", node("Equal", *x))


def _power(x: Arrays, params: Params) -> Array:
    if x[1].dtype.kind != "f" and np.any(x[1] < 0):
        raise NoOracle("ONNX does not say what a whole number to a negative power is")
    return node("Pow", *x)


def _rsqrt(x: Arrays, params: Params) -> Array:
    return node("Reciprocal", node("Sqrt", x[0]))


def _softplus(x: Arrays, params: Params) -> Array:
    """Adds a factor and a threshold, which ONNX's Softplus lacks; a negative threshold never switches to the straight line."""
    beta, threshold = (np.asarray(params.get(n, d)) for n, d in (("beta", 1.0), ("threshold", -1.0)))
    scaled = node("Mul", x[0], beta)
    y = node("Div", node("Softplus", scaled), beta)
    return y if threshold < 0 else node("Where", node("Greater", scaled, threshold), x[0], y)


def _squared_difference(x: Arrays, params: Params) -> Array:
    difference = node("Sub", *x)
    return node("Mul", difference, difference)


def _is_inf(x: Arrays, params: Params) -> Array:
    wanted = {n: int(params.get(n, True)) for n in ("detect_negative", "detect_positive")}
    return node("IsInf", x[0], **wanted)


#: Functions with attributes, or that take a few nodes.
BUILT: dict[str, Callable[[Arrays, Params], Array]] = {
    "ELU": lambda x, p: node("Elu", x[0], alpha=p.get("alpha", 1.0)),
    "FLOOR_DIV": _floor_div,
    "FMOD": lambda x, p: node("Mod", *x, fmod=1),
    "HARD_SIGMOID": lambda x, p: node(
        "HardSigmoid", x[0], alpha=p.get("alpha", 0.2), beta=p.get("beta", 0.5)
    ),
    "ISINF": _is_inf,
    "MOD": _mod,
    "NOT_EQUAL": _not_equal,
    "POWER": _power,
    "RELU1": lambda x, p: _clip(x[0], -1, 1),
    "RELU6": lambda x, p: _clip(x[0], 0, 6),
    "RELU_MIN_MAX": lambda x, p: _clip(x[0], p["min_value"], p["max_value"]),
    "RSQRT": _rsqrt,
    "SOFTPLUS": _softplus,
    "SQUARED_DIFFERENCE": _squared_difference,
}


def of_elements(config: OpConfig, inputs: Sequence[Array | None], params: Params) -> list[Array]:
    given = [x for x in inputs if x is not None]
    name = function_of(config)
    return [node(SAME[name], *given) if name in SAME else BUILT[name](given, params)]
