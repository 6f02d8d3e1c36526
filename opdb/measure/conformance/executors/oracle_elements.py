"""PyTorch's answers for elementwise ops, which ``torch_oracle`` calls with one element of each input.

``function_of`` gives the function of an op config; ElementWiseAdd and ElementWiseBinary with ADD are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.measure.conformance.data import function_of
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T


def convert(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Returns the same real values in another type or encoding."""
    (source,), (made,) = config.inputs, config.outputs
    if source.dtype != made.dtype and not (_holds_reals(source) and _holds_reals(made)):
        raise NoOracle(
            "the documents do not say how whole numbers and truth values become real ones, or back"
        )
    return [inputs[0]]


def _holds_reals(tensor: TensorConfig) -> bool:
    kind = BY_SHORT[tensor.dtype]
    return kind.quantized or kind.qnn.startswith(("FLOAT", "BFLOAT"))


def _softplus(x: T, params: Params) -> T:
    """A negative threshold (the default) never switches to the straight line."""
    threshold = params.get("threshold", -1.0)
    return F.softplus(x, params.get("beta", 1.0), threshold if threshold >= 0 else float("inf"))


def _between(x: T, low: float, high: float) -> T:
    return torch.minimum(
        torch.maximum(x, torch.tensor(low, dtype=x.dtype)), torch.tensor(high, dtype=x.dtype)
    )


def _is_infinite(x: T, params: Params) -> T:
    negative, positive = params.get("detect_negative", True), params.get("detect_positive", True)
    return (torch.isneginf(x) & bool(negative)) | (torch.isposinf(x) & bool(positive))


def _prelu(x: T, alpha: T) -> T:
    try:
        return torch.where(x >= 0, x, alpha.expand(x.shape) * x)
    except RuntimeError:
        raise NoOracle("the documents do not say what slopes of another shape mean") from None


#: Functions of one tensor: also defined for whole numbers, ...
UNARY: dict[str, Callable[[T], T]] = {
    "ABS": torch.abs, "CEIL": torch.ceil, "FLOOR": torch.floor, "NEG": torch.neg, "RELU": F.relu,
    "ROUND": torch.round, "SIGN": torch.sign,
}  # fmt: skip
#: ... and for real ones only.
REAL_UNARY: dict[str, Callable[[T], T]] = {
    "ASIN": torch.asin, "ATAN": torch.atan, "COS": torch.cos, "EXP": torch.exp, "GELU": F.gelu,
    "HARD_SWISH": F.hardswish, "LOG": torch.log, "RECIPROCAL": torch.reciprocal, "RSQRT": torch.rsqrt,
    "SIGMOID": torch.sigmoid, "SIN": torch.sin, "SQRT": torch.sqrt, "TANH": torch.tanh,
}  # fmt: skip
#: Functions with parameters.
WITH_PARAMS: dict[str, Callable[[T, Params], T]] = {
    "RELU1": lambda x, p: _between(x, -1, 1),
    "RELU6": lambda x, p: _between(x, 0, 6),
    "RELU_MIN_MAX": lambda x, p: _between(x, p["min_value"], p["max_value"]),
}
#: F.hardsigmoid has alpha 1/6 and beta 1/2: its argument is transformed to get other values.
REAL_WITH_PARAMS: dict[str, Callable[[T, Params], T]] = {
    "ELU": lambda x, p: F.elu(x, p.get("alpha", 1.0)),
    "HARD_SIGMOID": lambda x, p: F.hardsigmoid(6.0 * (p.get("alpha", 0.2) * x + p.get("beta", 0.5)) - 3.0),
    "SOFTPLUS": _softplus,
}
NUMERICAL: dict[str, Callable[[T, T], T]] = {
    "ADD": torch.add, "FLOOR_DIV": torch.floor_divide, "FMOD": torch.fmod, "MAXIMUM": torch.maximum,
    "MINIMUM": torch.minimum, "MOD": torch.remainder, "MULTIPLY": torch.multiply,
    "SQUARED_DIFFERENCE": lambda a, b: torch.square(torch.subtract(a, b)), "SUBTRACT": torch.subtract,
}  # fmt: skip
REAL_NUMERICAL: dict[str, Callable[[T, T], T]] = {
    "DIVIDE": torch.divide, "POWER": torch.pow,
    "PRELU": _prelu,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[T, T], T]] = {
    "EQUAL": torch.eq, "GREATER": torch.gt, "GREATER_EQUAL": torch.ge, "LESS": torch.lt, "LESS_EQUAL": torch.le,
    "NOT_EQUAL": torch.ne,
}  # fmt: skip
LOGICAL: dict[str, Callable[..., T]] = {
    "AND": torch.logical_and, "NOT": torch.logical_not, "OR": torch.logical_or, "XOR": torch.logical_xor,
}  # fmt: skip
TESTS: dict[str, Callable[[T, Params], T]] = {"ISINF": _is_infinite, "ISNAN": lambda x, p: torch.isnan(x)}


def of_elements(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Raises NoOracle for what the documents leave open: truth values as numbers, rounding of whole numbers."""
    name, out = function_of(config), config.outputs[0].dtype
    if name in COMPARISONS | LOGICAL | TESTS:
        if out != "bool8":
            raise NoOracle(f"the documents do not say how a truth value is written in {out}")
        if name in LOGICAL and any(x.dtype != torch.bool for x in inputs):
            raise NoOracle("the documents do not say which numbers are true")
        return [TESTS[name](inputs[0], params) if name in TESTS else (COMPARISONS | LOGICAL)[name](*inputs)]
    if any(x.dtype == torch.bool for x in inputs):
        raise NoOracle("the documents do not say how truth values are computed with")
    if name in REAL_UNARY | REAL_NUMERICAL | REAL_WITH_PARAMS and not inputs[0].is_floating_point():
        raise NoOracle(f"the documents do not say how {config.op} rounds whole numbers")
    if name in WITH_PARAMS | REAL_WITH_PARAMS:
        return [(WITH_PARAMS | REAL_WITH_PARAMS)[name](inputs[0], params)]
    return [held((UNARY | REAL_UNARY | NUMERICAL | REAL_NUMERICAL)[name](*inputs), out)]


def held(result: T, dtype: str) -> T:
    """Wraps whole numbers to the range of their type, as PyTorch does."""
    kind = BY_SHORT[dtype]
    if result.is_floating_point() or kind.quantized or kind.numpy is None:
        return result
    return torch.from_numpy(result.numpy().astype(kind.numpy).astype("int64"))
