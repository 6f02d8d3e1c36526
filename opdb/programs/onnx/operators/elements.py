"""Elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Unreadable, Value, array, dtype, tensor

SELU_ALPHA, SELU_GAMMA = 1.6732631921768188, 1.0507010221481323


def _plain(function: Callable[..., Tensor]) -> Operator:
    return Operator(lambda node, *inputs: function(*inputs))


def _folded(function: Callable[[Tensor, Tensor], Tensor]) -> Operator:
    return Operator(lambda node, *inputs: reduce(function, inputs))


def _celu(node: Node, x: Tensor) -> Tensor:
    return functional.celu(x, node.get("alpha", 1.0))


def _clip(node: Node, x: Tensor, low: Value = None, high: Value = None) -> Tensor:
    """The limits are attributes before opset 11."""
    ends = [node.get("min") if low is None else low, node.get("max") if high is None else high]
    if not any(isinstance(e, Tensor) for e in ends):
        ends = [e.item() if isinstance(e, np.ndarray) else e for e in ends]
        return x if ends == [None, None] else torch.clamp(x, *ends)
    for end, function in zip(ends, (torch.maximum, torch.minimum), strict=True):
        if end is not None:
            x = function(x, tensor(end))
    return x


def _div(node: Node, x: Tensor, y: Tensor) -> Tensor:
    return torch.div(x, y) if x.dtype.is_floating_point else torch.div(x, y, rounding_mode="trunc")


def _dropout(node: Node, x: Tensor, ratio: Value = None, training: Value = None) -> tuple[Any, ...]:
    rate = np.array(0.5) if ratio is None else node.known("ratio", ratio)
    trained = node.known("training_mode", training)
    if trained is not None and trained.item() and rate is not None and rate.item():
        raise Unreadable("it drops numbers at random, as in training; export the model for inference")
    return x, np.ones(tuple(x.shape), bool)


def _elu(node: Node, x: Tensor) -> Tensor:
    return functional.elu(x, node.get("alpha", 1.0))


def _gelu(node: Node, x: Tensor) -> Tensor:
    return functional.gelu(x, approximate=node.get("approximate", "none"))


def _hard_sigmoid(node: Node, x: Tensor) -> Tensor:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return functional.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


def _is_inf(node: Node, x: Tensor) -> Tensor:
    signs = node.get("detect_negative", 1), node.get("detect_positive", 1)
    if signs == (1, 1):
        return torch.isinf(x)
    if signs == (0, 0):
        return torch.zeros_like(x, dtype=torch.bool)
    return x == (math.inf if signs[1] else -math.inf)


def _leaky_relu(node: Node, x: Tensor) -> Tensor:
    return functional.leaky_relu(x, node.get("alpha", 0.01))


def _mod(node: Node, x: Tensor, y: Tensor) -> Tensor:
    return (torch.fmod if node.get("fmod", 0) else torch.remainder)(x, y)


def _power(node: Node, x: Tensor, y: Value) -> Tensor:
    """The result has the base's data type."""
    if isinstance(y, np.ndarray) and y.size == 1 and len(y.shape) <= x.dim():
        exponent = y.item()
        made = torch.pow(x, int(exponent) if exponent == int(exponent) else exponent)
    else:
        assert y is not None
        made = torch.pow(x, tensor(y))
    return made if made.dtype == x.dtype else made.to(x.dtype)


def _prelu(node: Node, x: Tensor, slope: Tensor) -> Tensor:
    of_channels = slope.dim() == x.dim() - 1 and slope.shape[0] == slope.numel() == x.shape[1]
    if x.dtype.is_floating_point and (slope.numel() == 1 or of_channels):
        return functional.prelu(x, slope.reshape(-1))
    return torch.where(x < 0, x * slope, x)


def _selu(node: Node, x: Tensor) -> Tensor:
    alpha, gamma = node.get("alpha", SELU_ALPHA), node.get("gamma", SELU_GAMMA)
    if math.isclose(alpha, SELU_ALPHA, rel_tol=1e-6) and math.isclose(gamma, SELU_GAMMA, rel_tol=1e-6):
        return functional.selu(x)
    return functional.elu(x, alpha) * gamma


def _shift(node: Node, x: Tensor, y: Tensor) -> Tensor:
    left = node.get("direction") == "LEFT"
    return (torch.bitwise_left_shift if left else torch.bitwise_right_shift)(x, y)


def _shrink(node: Node, x: Tensor) -> Tensor:
    bias, lambd = node.get("bias", 0.0), node.get("lambd", 0.5)
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x)))


def _swish(node: Node, x: Tensor) -> Tensor:
    alpha = node.get("alpha", 1.0)
    return functional.silu(x) if alpha == 1 else x * torch.sigmoid(x * alpha)


def _thresholded_relu(node: Node, x: Tensor) -> Tensor:
    return functional.threshold(x, node.get("alpha", 1.0), 0.0)


def _cast(node: Node, x: Tensor) -> Tensor:
    return x.to(dtype(node["to"]))


def _cast_like(node: Node, x: Value, like: Tensor) -> Any:
    """A constant input gives a constant: function bodies cast their constants to the type of an input."""
    assert x is not None
    made = tensor(x).to(like.dtype)
    return made if isinstance(x, Tensor) else array(made)


def _bit_cast(node: Node, x: Tensor) -> Tensor:
    return x.view(dtype(node["to"]))


OPERATORS = {
    "Abs": _plain(torch.abs),
    "Acos": _plain(torch.acos),
    "Acosh": _plain(torch.acosh),
    "Add": _plain(torch.add),
    "And": _plain(torch.logical_and),
    "Asin": _plain(torch.asin),
    "Asinh": _plain(torch.asinh),
    "Atan": _plain(torch.atan),
    "Atanh": _plain(torch.atanh),
    "BitCast": Operator(_bit_cast),
    "BitShift": Operator(_shift),
    "BitwiseAnd": _plain(torch.bitwise_and),
    "BitwiseNot": _plain(torch.bitwise_not),
    "BitwiseOr": _plain(torch.bitwise_or),
    "BitwiseXor": _plain(torch.bitwise_xor),
    "Cast": Operator(_cast),
    "CastLike": Operator(_cast_like, known=(0,)),
    "Ceil": _plain(torch.ceil),
    "Celu": Operator(_celu),
    "Clip": Operator(_clip, known=(1, 2)),
    "Cos": _plain(torch.cos),
    "Cosh": _plain(torch.cosh),
    "Div": Operator(_div),
    "Dropout": Operator(_dropout, known=(1, 2)),
    "Elu": Operator(_elu),
    "Equal": _plain(torch.eq),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Floor": _plain(torch.floor),
    "Gelu": Operator(_gelu),
    "Greater": _plain(torch.gt),
    "GreaterOrEqual": _plain(torch.ge),
    "HardSigmoid": Operator(_hard_sigmoid),
    "HardSwish": _plain(functional.hardswish),
    "Identity": _plain(lambda x: x),
    "IsInf": Operator(_is_inf),
    "IsNaN": _plain(torch.isnan),
    "LeakyRelu": Operator(_leaky_relu),
    "Less": _plain(torch.lt),
    "LessOrEqual": _plain(torch.le),
    "Log": _plain(torch.log),
    "Max": _folded(torch.maximum),
    "Mean": Operator(lambda node, *inputs: reduce(torch.add, inputs) / len(inputs)),
    "Min": _folded(torch.minimum),
    "Mish": _plain(functional.mish),
    "Mod": Operator(_mod),
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Not": _plain(torch.logical_not),
    "Or": _plain(torch.logical_or),
    "PRelu": Operator(_prelu),
    "Pow": Operator(_power, known=(1,)),
    "Reciprocal": _plain(torch.reciprocal),
    "Relu": _plain(torch.relu),
    "Round": _plain(torch.round),
    "Selu": Operator(_selu),
    "Shrink": Operator(_shrink),
    "Sigmoid": _plain(torch.sigmoid),
    "Sign": _plain(torch.sign),
    "Sin": _plain(torch.sin),
    "Sinh": _plain(torch.sinh),
    "Softplus": _plain(functional.softplus),
    "Softsign": _plain(functional.softsign),
    "Sqrt": _plain(torch.sqrt),
    "Sub": _plain(torch.sub),
    "Sum": _folded(torch.add),
    "Swish": Operator(_swish),
    "Tan": _plain(torch.tan),
    "Tanh": _plain(torch.tanh),
    "ThresholdedRelu": Operator(_thresholded_relu),
    "Where": _plain(torch.where),
    "Xor": _plain(torch.logical_xor),
}
