"""Elementwise kernels against PyTorch's functions in float64, int64 and bool, for every supported data type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from case import SPECIAL

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.measure.conformance import data
from opdb.runtime import native
from opdb.spec.each import kind_of
from opdb.spec.lang.element import TRUTH, WHOLE

from ...repository_specs import repository_catalog

pytestmark = [pytest.mark.slow, pytest.mark.native]

CATALOG = repository_catalog()
KERNELS = {
    n: op.kernel for n, op in CATALOG.ops.items() if op.kernel is not None and op.kernel.each is not None
}
OPS = {n: CATALOG.compiled(n) for n in KERNELS}
T = Any
F = torch.nn.functional


def whole(function: Callable[..., T], other: Callable[..., T]) -> Callable[..., T]:
    """``function`` for floating-point numbers, ``other`` for integers."""
    return lambda x, *more: (function if x.is_floating_point() else other)(x, *more)


def divided(a: T, b: T) -> T:
    return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="trunc"))


def whole_division(a: T, b: T) -> T:
    return torch.where(b == 0, 0, torch.div(a, torch.where(b == 0, 1, b), rounding_mode="floor"))


def remainder(of: Callable[[T, T], T]) -> Callable[[T, T], T]:
    return lambda a, b: torch.where(b == 0, 0, of(a, torch.where(b == 0, 1, b)))


def softplus(x: T, beta: float = 1.0, threshold: float = -1.0) -> T:
    y = torch.logaddexp(beta * x, torch.zeros_like(x)) / beta
    return torch.where(beta * x > threshold, x, y) if threshold >= 0 else y


def same(x: T) -> T:
    return x


UNARY: dict[str, Callable[..., T]] = {
    "ABS": torch.abs, "ASIN": torch.asin, "ATAN": torch.atan, "CEIL": whole(torch.ceil, same), "COS": torch.cos,
    "EXP": torch.exp, "FLOOR": whole(torch.floor, same), "LOG": torch.log, "NEG": torch.neg,
    "NOT": torch.logical_not, "RECIPROCAL": torch.reciprocal, "ROUND": whole(torch.round, same),
    "RSQRT": torch.rsqrt, "SIGN": torch.sign, "SIN": torch.sin, "SQRT": torch.sqrt,
}  # fmt: skip
BINARY: dict[str, Callable[..., T]] = {
    "ADD": torch.add, "AND": torch.logical_and, "DIVIDE": whole(torch.divide, divided), "EQUAL": torch.eq,
    "FLOOR_DIV": whole(torch.floor_divide, whole_division), "FMOD": whole(torch.fmod, remainder(torch.fmod)),
    "GREATER": torch.gt, "GREATER_EQUAL": torch.ge, "LESS": torch.lt, "LESS_EQUAL": torch.le,
    "MAXIMUM": torch.maximum, "MINIMUM": torch.minimum, "MOD": whole(torch.remainder, remainder(torch.remainder)),
    "MULTIPLY": torch.multiply, "NOT_EQUAL": torch.ne, "OR": torch.logical_or, "POWER": torch.pow,
    "SQUARED_DIFFERENCE": lambda a, b: torch.square(a - b), "SUBTRACT": torch.subtract, "XOR": torch.logical_xor,
}  # fmt: skip
NEURON: dict[str, tuple[Callable[..., T], dict[str, float]]] = {
    "ELU": (lambda x: F.elu(x, 0.7), {"alpha": 0.7}),
    "GELU": (lambda x: 0.5 * x * torch.special.erfc(-x / 2**0.5), {}),  # F.gelu loses the left tail
    "HARD_SIGMOID": (lambda x: torch.clamp(0.3 * x + 0.4, 0, 1), {"alpha": 0.3, "beta": 0.4}),
    "HARD_SWISH": (F.hardswish, {}),
    "RELU": (torch.relu, {}),
    "RELU_MIN_MAX": (lambda x: torch.clamp(x, -1, 2), {"min_value": -1.0, "max_value": 2.0}),
    "SIGMOID": (torch.sigmoid, {}),
    "SOFTPLUS": (lambda x: softplus(x, 2.0, 3.0), {"beta": 2.0, "threshold": 3.0}),
    "TANH": (torch.tanh, {}),
}
NAMED: dict[str, Callable[..., T]] = {
    f"ElementWise{n}": (UNARY | BINARY)[key]
    for n, key in {
        "Abs": "ABS", "Add": "ADD", "And": "AND", "Asin": "ASIN", "Atan": "ATAN", "Ceil": "CEIL", "Cos": "COS",
        "Divide": "DIVIDE", "Equal": "EQUAL", "Exp": "EXP", "Floor": "FLOOR", "FloorDiv": "FLOOR_DIV",
        "Fmod": "FMOD", "Greater": "GREATER", "GreaterEqual": "GREATER_EQUAL", "Less": "LESS",
        "LessEqual": "LESS_EQUAL", "Log": "LOG", "Maximum": "MAXIMUM", "Minimum": "MINIMUM", "Mod": "MOD",
        "Multiply": "MULTIPLY", "Neg": "NEG", "Not": "NOT", "NotEqual": "NOT_EQUAL", "Or": "OR", "Power": "POWER",
        "Round": "ROUND", "Rsqrt": "RSQRT", "Sign": "SIGN", "Sin": "SIN", "SquareRoot": "SQRT",
        "SquaredDifference": "SQUARED_DIFFERENCE", "Subtract": "SUBTRACT", "Xor": "XOR",
    }.items()
} | {
    "ElementWiseSoftplus": softplus, "Elu": F.elu,
    "FakeQuantize": lambda x: -1 + torch.round((torch.clamp(x, -1, 2) + 1) * 12 / 3) * 3 / 12,
    "Gelu": NEURON["GELU"][0], "HardSwish": F.hardswish,
    "IsInf": torch.isinf, "IsNan": torch.isnan, "Prelu": lambda x, alpha: torch.where(x >= 0, x, alpha * x),
    "Relu": torch.relu, "Relu1": lambda x: torch.clamp(x, -1, 1), "Relu6": F.relu6,
    "ReluMinMax": lambda x: torch.clamp(x, -1, 2), "Sigmoid": torch.sigmoid, "Tanh": torch.tanh,
}  # fmt: skip
#: Parameters an op needs besides its inputs.
GIVEN: dict[str, dict[str, Any]] = {
    "FakeQuantize": {"low": -1.0, "high": 2.0, "levels": 13}, "ReluMinMax": {"min_value": -1.0, "max_value": 2.0},
}  # fmt: skip


@dataclass(frozen=True)
class Question:
    """One variant of one kernel, for one data type."""

    op: str
    choice: str
    dtype: str

    @property
    def params(self) -> dict[str, Any]:
        kernel, chosen = KERNELS[self.op], {}
        if kernel.by is not None:
            chosen = {kernel.by: OPS[self.op].definition.params[kernel.by].enum[self.choice]}
        more = NEURON[self.choice][1] if self.op == "ElementWiseNeuron" else GIVEN.get(self.op, {})
        return {**chosen, **more}

    @property
    def oracle(self) -> Callable[..., T]:
        if self.op == "ElementWiseNeuron":
            return NEURON[self.choice][0]
        return (
            {"ElementWiseUnary": UNARY, "ElementWiseBinary": BINARY}[self.op][self.choice]
            if self.choice
            else NAMED[self.op]
        )

    def config(self, *shapes: tuple[int, ...]) -> OpConfig:
        op = OPS[self.op]
        test = op.each[self.choice][kind_of(self.dtype)].type == TRUTH
        inputs = tuple(tensor(s.name, self.dtype, shape) for s, shape in zip(op.inputs, shapes, strict=True))
        result = tensor("y", "bool8" if test else self.dtype, np.broadcast_shapes(*shapes))
        declared = op.definition.params
        params = tuple(
            ParamConfig(n, "u32" if declared[n].enum else declared[n].base, v) for n, v in self.params.items()
        )
        return OpConfig(self.op, inputs, params, (result,))


def questions() -> Iterator[Question]:
    for name, op in OPS.items():
        for choice, kinds in op.each.items():
            yield from (Question(name, choice, d) for d in KERNELS[name].dtypes if kind_of(d) in kinds)


QUESTIONS = list(questions())
#: (scale, the stored value of zero) by bits.
ENCODINGS = {8: (2.0**-4, 3), 16: (2.0**-11, 300)}


def tensor(name: str, dtype: str, shape: tuple[int, ...]) -> TensorConfig:
    described = BY_SHORT[dtype]
    if not described.quantized:
        return TensorConfig(name, dtype, shape)
    scale, zero = ENCODINGS[described.bits]
    middle = 2 ** (described.bits - 1) if dtype[0] == "u" else 0
    return TensorConfig(name, dtype, shape, quant=Quant("SCALE_OFFSET", (scale,), (-middle - zero,)))


def values(question: Question, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Values for a tensor of the data type: all of them if there are few, else some of each magnitude."""
    rng, kind = np.random.default_rng(seed), BY_SHORT[question.dtype]
    stored = np.dtype(kind.numpy)
    if stored.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.quantized or (stored.kind in "iu" and question.dtype != "bf16"):
        limits = np.iinfo(stored)
        few = rng.integers(-5 if limits.min else 0, 6, shape)
        many = rng.integers(limits.min, limits.max, shape, dtype=stored, endpoint=True)
        return np.where(rng.integers(0, 2, shape), many, few.astype(stored)) if not kind.quantized else many
    real = rng.standard_normal(shape) * np.exp(rng.standard_normal(shape) * 2)
    real = np.where(rng.random(shape) < 0.1, rng.choice(SPECIAL, shape), real).astype(np.float32)
    return (
        real.astype(np.float16)
        if question.dtype == "f16"
        else (real.view(np.uint32) >> 16).astype(np.uint16)
        if question.dtype == "bf16"
        else real
    )


#: Units in the last place that an approximated function of float32 may be off, instead of half a unit.
APPROXIMATED = {"COS": 2.1, "EXP": 2, "ELU": 4, "GELU": 7, "SIGMOID": 3, "SIN": 2.1, "TANH": 3}
#: Sigmoid and GELU may be 0 there: exp(-x) is infinite, or the power of 2 that would not be a normal number.
BELOW_NORMAL = {"GELU": 2.0**-126, "SIGMOID": 2.0**-126}


def room(question: Question, want: np.ndarray) -> np.ndarray:
    """The kernel's tolerance: half a unit in the last place and 2**-8 of one, or that of its approximation."""
    units, least = 0.5 + 2**-8, 0.0
    if question.dtype == "f32":
        name = (question.choice or question.op.removeprefix("ElementWise")).upper()
        units, least = APPROXIMATED.get(name, units), BELOW_NORMAL.get(name, 0)
    return units * ulp(want, question.dtype) + least


def wrong(question: Question, shapes: tuple[tuple[int, ...], ...], seed: int = 0) -> str:
    """The first element where the kernel exceeds its tolerance, or is off by more than a step; empty if none."""
    config = question.config(*shapes)
    inputs = [values(question, s, seed + i) for i, s in enumerate(shapes)]
    (got,) = native.run(config, inputs)
    with np.errstate(all="ignore"):
        real = [
            torch.from_numpy(np.ascontiguousarray(data.real(a, t)))
            for a, t in zip(inputs, config.inputs, strict=True)
        ]
        want = question.oracle(*real).numpy()
        (made,) = config.outputs
        if made.dtype == "bool8" or kind_of(made.dtype) == WHOLE:
            off = got != want.astype(got.dtype)
        elif BY_SHORT[made.dtype].quantized:
            steps = np.abs(got.astype(np.float64) - data.quantized(np.nan_to_num(want, nan=-np.inf), made))
            off = steps > 1
        else:
            have = data.real(got, made)
            near = np.abs(have - want) <= room(question, want)
            off = ~(near | (have == rounded(want, made.dtype)) | (np.isnan(have) & np.isnan(want)))
    at = np.argwhere(np.atleast_1d(off))
    return (
        f"{shapes} at {at[0]}: {np.atleast_1d(got)[tuple(at[0])]}, want {np.atleast_1d(want)[tuple(at[0])]}; {len(at)}"
        if len(at)
        else ""
    )


def rounded(want: np.ndarray, dtype: str) -> np.ndarray:
    return want.astype(np.float32 if dtype == "f32" else np.float16).astype(np.float64)


def ulp(want: np.ndarray, dtype: str) -> np.ndarray:
    """A unit in the last place of each value; bf16 has 16 bits less than f32."""
    if dtype == "f16":
        return np.spacing(np.abs(want).astype(np.float16)).astype(np.float64)
    unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
    return unit * 2**16 if dtype == "bf16" else unit


SHAPES = [((), ()), ((7,), (7,)), ((0,), (0,)), ((4, 5), (5,)), ((5,), (4, 5)), ((4, 1), (1, 5)), ((2, 3, 4), (3, 1)),
          ((600,), (600,)), ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)), ((3, 1030), (1,)), ((2, 513), (2, 1))]  # fmt: skip


@pytest.mark.parametrize(
    "question", QUESTIONS, ids=lambda q: "-".join(filter(None, (q.op, q.choice, q.dtype)))
)
def test_elements_are_pytorchs_correctly_rounded(question: Question) -> None:
    inputs = len(OPS[question.op].inputs)
    # QNN's functions of one tensor want a dimension.
    shapes = SHAPES if inputs == 2 else [s for s in SHAPES if s[0]]
    if question.op == "Prelu":
        shapes = [s for s in shapes if s[1] and np.broadcast_shapes(*s) == s[0]]
    found = [wrong(question, tuple(s[:inputs]), i) for i, s in enumerate(shapes)]
    assert not "".join(found)


@pytest.mark.parametrize(
    "op", ["ElementWiseCos", "ElementWiseExp", "ElementWiseSin", "Elu", "Gelu", "Sigmoid", "Tanh"]
)
def test_approximations_stay_within_their_bounds(op: str) -> None:
    """Checks one in 997 of all float32 numbers."""
    question = Question(op, "", "f32")
    x = np.arange(0, 2**32, 997, dtype=np.uint32).view(np.float32)
    (got,) = native.run(question.config(x.shape), [x])
    with np.errstate(all="ignore"):
        want = question.oracle(torch.from_numpy(x).double()).numpy()
        near = np.abs(got - want) <= room(question, want)
        off = ~(near | (got == want.astype(np.float32)) | (np.isnan(got) & np.isnan(want)))
    assert not x[off].tolist()


def test_inconsistent_shapes_are_refused() -> None:
    """Prelu.C4 only warns: the kernel itself must not read beyond its slopes."""
    config = Question("Prelu", "", "f32").config((4,), (1,))
    slopes = TensorConfig("alpha", "f32", (3,))
    with pytest.raises(native.KernelError, match="unsupported"):
        native.run(
            replace(config, inputs=(config.inputs[0], slopes)),
            [np.ones(4, np.float32), np.ones(3, np.float32)],
        )


@pytest.mark.parametrize("encoding", ["AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"])
@pytest.mark.parametrize("axis", [0, 1, 15])
def test_an_encoding_of_a_float_tensor_is_ignored(encoding: str, axis: int) -> None:
    """Found by fuzzing: its axis was looked up in the shape even if out of range."""
    x = np.arange(-3, 3, dtype=np.float32)
    quant = Quant(encoding, (0.5,), (3,), axis)
    tensor = TensorConfig("", "f32", x.shape, "NATIVE", None, quant)
    for inputs, outputs in (
        ((tensor,), (replace(tensor, quant=None),)),
        ((replace(tensor, quant=None),), (tensor,)),
    ):
        (y,) = native.run(OpConfig("ElementWiseAbs", inputs, (), outputs), [x])
        assert np.array_equal(y, np.abs(x))
