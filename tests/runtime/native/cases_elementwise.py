"""Cases of Relu, ElementWiseNeuron, ElementWiseBinary, ElementWiseAdd and DequantizeAdd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from case import SPECIAL, Array, Case, Shape, f32, normal, tag

NEURONS = (
    "ELU", "GELU", "HARD_SIGMOID", "HARD_SWISH", "RELU", "RELU_MIN_MAX", "SIGMOID", "SOFTPLUS", "TANH",
)  # fmt: skip


BINARIES = (
    "ADD", "AND", "DIVIDE", "EQUAL", "FLOOR_DIV", "FMOD", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL",
    "MAXIMUM", "MINIMUM", "MOD", "MULTIPLY", "NOT_EQUAL", "OR", "POWER", "SQUARED_DIFFERENCE", "SUBTRACT",
    "XOR",
)  # fmt: skip


COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")


LOGICAL = ("AND", "OR", "XOR")


SHAPES = (
    (),
    (1,),
    (7,),
    (0,),
    (3, 5),
    (2, 0, 3),
    (1, 1, 1),
    (2, 3, 4, 5),
    (2, 1, 3, 1, 33),
)


def relu() -> Iterator[Case]:
    for shape in SHAPES:
        yield Case(
            tag(shape), "opdb_relu", (x := normal(1, *shape),), f32(shape), lambda pt, t, x=x: pt.relu(t(x))
        )
    x = SPECIAL
    yield Case("special", "opdb_relu", (x,), f32(x.shape), lambda pt, t, x=x: pt.relu(t(x)))


def neuron() -> Iterator[Case]:
    def oracle(name: str, x: Array, alpha: float, beta: float, lo: float, hi: float, threshold: float) -> Any:
        def hard_sigmoid(pt: Any, v: Any) -> Any:
            return pt.clamp(alpha * v + beta, 0, 1)

        def softplus(pt: Any, v: Any) -> Any:
            if threshold >= 0:
                return pt.nn.functional.softplus(v, beta, threshold)
            return pt.logaddexp(beta * v, pt.zeros_like(v)) / beta

        table = {
            "ELU": lambda pt, v: pt.nn.functional.elu(v, alpha),
            "GELU": lambda pt, v: 0.5 * v * pt.special.erfc(-v / 2**0.5),  # gelu() itself loses the left tail
            "HARD_SIGMOID": hard_sigmoid,
            "HARD_SWISH": lambda pt, v: pt.nn.functional.hardswish(v),
            "RELU": lambda pt, v: pt.relu(v),
            "RELU_MIN_MAX": lambda pt, v: pt.nn.functional.hardtanh(v, lo, hi),
            "SIGMOID": lambda pt, v: pt.sigmoid(v),
            "SOFTPLUS": softplus,
            "TANH": lambda pt, v: pt.tanh(v),
        }
        return lambda pt, t: table[name](pt, t(x))

    wide = np.concatenate([normal(2, 300) * 8, np.geomspace(1e-30, 1e2, 200, dtype=np.float32), SPECIAL])
    variants = {
        "ELU": [(1.0, 0.0, 0.0, 0.0, -1.0), (0.3, 0.0, 0.0, 0.0, -1.0)],
        "HARD_SIGMOID": [(0.2, 0.5, 0.0, 0.0, -1.0), (1 / 6, 0.5, 0.0, 0.0, -1.0)],
        "RELU_MIN_MAX": [(0.0, 0.0, 0.0, 6.0, -1.0), (0.0, 0.0, -1.0, 1.0, -1.0)],
        "SOFTPLUS": [(0.0, 1.0, 0.0, 0.0, -1.0), (0.0, 2.0, 0.0, 0.0, 20.0), (0.0, 0.5, 0.0, 0.0, 3.0)],
    }
    for number, name in enumerate(NEURONS):
        for params in variants.get(name, [(0.0, 0.0, 0.0, 0.0, -1.0)]):
            for x in (wide, -wide, normal(3, 2, 1, 17), normal(3, 3, 0)):
                label = f"{name}-{params[0]:.2g}-{params[1]:.2g}-{tag(x.shape)}"
                yield Case(
                    label,
                    "opdb_element_wise_neuron",
                    (x, number, *params),
                    f32(x.shape),
                    oracle(name, x, *params),
                    ulp={"ELU": 4, "GELU": 7, "SIGMOID": 3, "TANH": 3}.get(name, 1),
                    absolute=2**-126 if name in ("GELU", "SIGMOID") else 0,  # they may be 0 below it
                )


BROADCASTS: tuple[tuple[Shape, Shape], ...] = (
    ((5,), (5,)), ((4, 5), (5,)), ((5,), (4, 5)), ((4, 1), (1, 5)), ((), (3, 2)), ((3, 2), ()), ((1,), (1,)),
    ((2, 3, 4), (3, 1)), ((2, 1, 4), (3, 4)), ((2, 3, 4, 5), (2, 1, 4, 1)), ((1, 1, 1), (2, 3)),
    ((0, 3), (1, 3)), ((2, 0), (2, 1)), ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)), ((2, 3, 70), (2, 3, 70)),
)  # fmt: skip


def binary() -> Iterator[Case]:
    table: dict[str, Callable[[Any, Any, Any], Any]] = {
        "ADD": lambda pt, a, b: a + b,
        "AND": lambda pt, a, b: pt.logical_and(a, b),
        "DIVIDE": lambda pt, a, b: a / b,
        "EQUAL": lambda pt, a, b: a == b,
        "FLOOR_DIV": lambda pt, a, b: pt.floor_divide(a, b),
        "FMOD": lambda pt, a, b: pt.fmod(a, b),
        "GREATER": lambda pt, a, b: a > b,
        "GREATER_EQUAL": lambda pt, a, b: a >= b,
        "LESS": lambda pt, a, b: a < b,
        "LESS_EQUAL": lambda pt, a, b: a <= b,
        "MAXIMUM": lambda pt, a, b: pt.maximum(a, b),
        "MINIMUM": lambda pt, a, b: pt.minimum(a, b),
        "MOD": lambda pt, a, b: pt.remainder(a, b),
        "MULTIPLY": lambda pt, a, b: a * b,
        "NOT_EQUAL": lambda pt, a, b: a != b,
        "OR": lambda pt, a, b: pt.logical_or(a, b),
        "POWER": lambda pt, a, b: pt.pow(a, b),
        "SQUARED_DIFFERENCE": lambda pt, a, b: (a - b) * (a - b),
        "SUBTRACT": lambda pt, a, b: a - b,
        "XOR": lambda pt, a, b: pt.logical_xor(a, b),
    }

    def case(name: str, label: str, a: Array, b: Array, out: Shape) -> Case:
        boolean = name in COMPARISONS or name in LOGICAL
        if name in LOGICAL:
            a, b = np.asarray(a > 0), np.asarray(b > 0)
        call = ("opdb_element_wise_binary", (a, b, BINARIES.index(name)))
        return Case(
            f"{name}-{label}",
            *call,
            ((out, np.bool_ if boolean else np.float32),),
            lambda pt, t: table[name](pt, t(a), t(b)),
            exact=name not in ("POWER", "FMOD", "MOD", "SQUARED_DIFFERENCE"),
        )

    for name in BINARIES:
        for i, (sa, sb) in enumerate(BROADCASTS):
            a, b = normal(10 + i, *sa), normal(40 + i, *sb)
            a = np.asarray(np.abs(a)) if name == "POWER" else a
            yield case(name, f"{tag(sa)}-{tag(sb)}", a, b, np.broadcast_shapes(sa, sb))
        n = len(SPECIAL)
        yield case(name, "special", SPECIAL.reshape(n, 1), SPECIAL, (n, n))
    for sa, sb in BROADCASTS:
        a, b = normal(5, *sa), normal(6, *sb)
        yield Case(
            f"{tag(sa)}-{tag(sb)}",
            "opdb_element_wise_add",
            (a, b),
            f32(np.broadcast_shapes(sa, sb)),
            lambda pt, t, a=a, b=b: t(a) + t(b),
            exact=True,
        )


def dequantize_add() -> Iterator[Case]:
    rng = np.random.default_rng(3)
    for shape in ((1,), (7,), (3, 5), (2, 3, 4), (2, 0, 3), (2, 3, 4, 33)):
        x = rng.integers(-128, 128, shape).astype(np.int8)
        bias = normal(4, shape[-1])
        for scale in (1.0, 0.0078125, -0.3):
            exact = float(np.float32(scale))
            yield Case(
                f"{tag(shape)}-{scale}",
                "opdb_dequantize_add",
                (x, bias, exact),
                f32(shape),
                lambda pt, t, x=x, bias=bias, exact=exact: t(x) * exact + t(bias),
            )
