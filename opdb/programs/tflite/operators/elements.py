"""Elementwise operators: arithmetic, comparisons, activations, casts and encodings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tflite
from onnx import helper

from opdb.programs.tflite.graph import Call, Unreadable, is_stored

#: TFLite's operator -> ONNX's, with one operand.
UNARY = {
    "ABS": "Abs", "CEIL": "Ceil", "COS": "Cos", "ELU": "Elu", "EXP": "Exp", "FLOOR": "Floor", "HARD_SWISH": "HardSwish",
    "LOG": "Log", "LOGICAL_NOT": "Not", "LOGISTIC": "Sigmoid", "NEG": "Neg", "RELU": "Relu", "ROUND": "Round",
    "SIGN": "Sign", "SIN": "Sin", "SQRT": "Sqrt", "TANH": "Tanh",
}  # fmt: skip
#: Operators with two operands that broadcast.
BINARY = {
    "EQUAL": "Equal", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual", "LESS": "Less", "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "MAXIMUM": "Max", "MINIMUM": "Min", "POW": "Pow", "BITWISE_XOR": "BitwiseXor",
}  # fmt: skip
#: Operators with two operands and a fused activation.
ARITHMETIC = {
    "ADD": ("Add", tflite.AddOptions), "DIV": ("Div", tflite.DivOptions), "MUL": ("Mul", tflite.MulOptions),
    "SUB": ("Sub", tflite.SubOptions),
}  # fmt: skip
LIMITS = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}


def _unary(op_type: str) -> Callable[[Call], None]:
    return lambda call: call.give(call.node(op_type, call.floats(0)))


def _binary(op_type: str) -> Callable[[Call], None]:
    return lambda call: call.give(call.node(op_type, call.floats(0), call.floats(1)))


def _arithmetic(op_type: str, options: type) -> Callable[[Call], None]:
    def write(call: Call) -> None:
        made = call.node(op_type, call.floats(0), call.floats(1))
        call.give(call.activated(made, call.options(options).FusedActivationFunction()))

    return write


def _limited(low: float, high: float) -> Callable[[Call], None]:
    return lambda call: call.give(call.node("Clip", call.floats(0), call.scalar(low), call.scalar(high)))


def _not_equal(call: Call) -> None:
    call.give(call.node("Not", call.node("Equal", call.floats(0), call.floats(1))))


def _square(call: Call) -> None:
    call.give(call.node("Mul", call.floats(0), call.floats(0)))


def _squared_difference(call: Call) -> None:
    off = call.node("Sub", call.floats(0), call.floats(1))
    call.give(call.node("Mul", off, off))


def _rsqrt(call: Call) -> None:
    call.give(call.node("Reciprocal", call.node("Sqrt", call.floats(0))))


def _floor_div(call: Call) -> None:
    if np.dtype(call.result().kind).kind == "f":
        call.give(call.node("Floor", call.node("Div", call.floats(0), call.floats(1))))
        return
    raise Unreadable("a quotient of whole numbers rounded down; ONNX cuts the fraction off")


def _floor_mod(call: Call) -> None:
    """The remainder with the sign of the divisor."""
    x, y = call.floats(0), call.floats(1)
    if np.dtype(call.result().kind).kind == "f":
        call.give(call.node("Sub", x, call.node("Mul", call.node("Floor", call.node("Div", x, y)), y)))
    else:
        call.give(call.node("Mod", x, y))


def _gelu(call: Call) -> None:
    about = "tanh" if call.options(tflite.GeluOptions).Approximate() else "none"
    call.give(call.node("Gelu", call.floats(0), approximate=about))


def _leaky_relu(call: Call) -> None:
    alpha = call.options(tflite.LeakyReluOptions).Alpha()
    call.give(call.node("LeakyRelu", call.floats(0), alpha=alpha))


def _prelu(call: Call) -> None:
    """Uses ONNX's image layout for one slope per channel of an image: QNN's Prelu has no other."""
    slopes, rank = call.shape(1), len(call.shape(0))
    if rank == 4 and slopes[-1:] == call.shape(0)[-1:] and int(np.prod(slopes)) == slopes[-1]:
        channels = call.weight(1, range(len(slopes)), (slopes[-1], 1, 1))
        call.give_image(call.node("PRelu", call.image(0), channels))
    else:
        call.give(call.node("PRelu", call.floats(0), call.floats(1)))


def _cast(call: Call) -> None:
    kind = call.result().kind
    if kind is None:
        raise Unreadable(f"a tensor of {call.result().type_name}")
    to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    call.give_stored(call.node("Cast", call.as_stored(0), to=to))


def _quantize(call: Call) -> None:
    """Quantizes floats, or converts from one encoding to another."""
    call.give(call.floats(0))


def _dequantize(call: Call) -> None:
    if is_stored(call.tensor(0)):
        call.give(call.floats(0))
    else:
        _cast(call)  # from 16-bit floats


def _densify(call: Call) -> None:
    call.give_stored(call.as_stored(0))  # opdb.programs.tflite.file has made it dense


def _select(call: Call) -> None:
    condition, rank = call.as_stored(0), len(call.result().shape)
    if call.operator.name == "SELECT" and len(call.shape(0)) == 1 and rank > 1:
        condition = call.reshaped(condition, [call.shape(0)[0], *[1] * (rank - 1)])  # one for each row
    call.give(call.node("Where", condition, call.floats(1), call.floats(2)))


def _zeros_like(call: Call) -> None:
    call.give(call.graph.constant(f"{call.result().name}/zeros", np.zeros(call.shape(0), call.result().kind)))


OPERATORS: dict[str, Callable[[Call], None]] = {
    **{name: _unary(op_type) for name, op_type in UNARY.items()},
    **{name: _binary(op_type) for name, op_type in BINARY.items()},
    **{name: _arithmetic(*found) for name, found in ARITHMETIC.items()},
    **{name: _limited(*ends) for name, ends in LIMITS.items()},
    "CAST": _cast,
    "DENSIFY": _densify,
    "DEQUANTIZE": _dequantize,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": _floor_mod,
    "GELU": _gelu,
    "LEAKY_RELU": _leaky_relu,
    "NOT_EQUAL": _not_equal,
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "RSQRT": _rsqrt,
    "SELECT": _select,
    "SELECT_V2": _select,
    "SQUARE": _square,
    "SQUARED_DIFFERENCE": _squared_difference,
    "ZEROS_LIKE": _zeros_like,
}
