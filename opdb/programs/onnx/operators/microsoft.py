"""Quantized operators of ONNX Runtime's own domain, com.microsoft: PT2E's operators around float operators.

Their inputs are documented in ONNX Runtime's docs/ContribOperators.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Value, axis
from opdb.programs.onnx.operators import quantized
from opdb.programs.onnx.operators.integers import OPERATORS as OF_INTEGERS
from opdb.programs.onnx.operators.nbits import OPERATORS as OF_FEW_BITS
from opdb.programs.onnx.operators.quantized import dequantize, quantize, said_at
from opdb.programs.onnx.operators.windows import average

OneInput = Any  # a function of the node and x in floats


def _of_one(function: OneInput) -> Operator:
    """An operator with the inputs x, scale and zero point of x, scale and zero point of y."""

    def computed(
        node: Node,
        x: Tensor,
        x_scale: Tensor,
        x_zero: Tensor | None,
        y_scale: Tensor,
        y_zero: Tensor | None = None,
    ) -> Tensor:
        return quantize(node, function(node, dequantize(node, x, x_scale, x_zero)), y_scale, y_zero)

    return Operator(computed, prepare=said_at(1, 2, 3, 4))


def _of_two(function: Any) -> Operator:
    """An operator with two factors or terms, each followed by its scale and zero point, then those of the result."""

    def computed(node: Node, *inputs: Tensor) -> Tensor:
        a, a_scale, a_zero, b, b_scale, b_zero, y_scale, *y_zero = inputs
        made = function(dequantize(node, a, a_scale, a_zero), dequantize(node, b, b_scale, b_zero))
        return quantize(node, made, y_scale, *y_zero)

    return Operator(computed, prepare=said_at(1, 2, 4, 5, 6, 7))


def _concat(node: Node, y_scale: Tensor, y_zero: Tensor, *inputs: Tensor) -> Tensor:
    parts = [dequantize(node.having(axis=1), *inputs[i : i + 3]) for i in range(0, len(inputs), 3)]
    made = torch.cat(parts, axis(node, parts[0].dim()))
    return quantize(node, made, y_scale, y_zero)


def _prepare_concat(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    return said_at(0, 1, *(i for i in range(2, len(given)) if i % 3 != 2))(node, given)


def _where(node: Node, condition: Tensor, *inputs: Tensor) -> Tensor:
    x, y = dequantize(node, *inputs[:3]), dequantize(node, *inputs[3:6])
    return quantize(node, torch.where(condition, x, y), *inputs[6:])


def _leaky_relu(node: Node, x: Tensor) -> Tensor:
    return functional.leaky_relu(x, node.get("alpha", 0.01))


def _average(node: Node, x: Tensor) -> Tensor:
    if not node.get("channels_last", 0):
        return average(node, x)
    return average(node, x.movedim(-1, 1)).movedim(1, -1)


def _global_average(node: Node, x: Tensor) -> Tensor:
    last = bool(node.get("channels_last", 0))
    return x.mean(list(range(1, x.dim() - 1) if last else range(2, x.dim())), keepdim=True)


def _reduce_mean(node: Node, x: Tensor) -> Tensor:
    dims = node.ints("axes") or list(range(x.dim()))
    return x.mean([d % x.dim() for d in dims], keepdim=bool(node.get("keepdims", 1)))


def _softmax(node: Node, x: Tensor) -> Tensor:
    """``opset``: the version of ONNX's Softmax to follow; before 13 it normalizes over all dimensions from ``axis`` on."""
    if node.get("opset", 13) >= 13:
        return torch.softmax(x, axis(node, x.dim(), -1))
    return torch.softmax(x.flatten(axis(node, x.dim(), 1)), -1).reshape(x.shape)


def _prepare_gemm(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Transposes a matrix from the file to torch.nn.Linear's layout, [out, in]."""
    node, given = said_at(1, 2, 4, 5, 7, 8)(node, given)
    if not node.get("transB", 0) and isinstance(given[3], np.ndarray):
        return node.having(transB=1), [*given[:3], np.ascontiguousarray(given[3].T), *given[4:]]
    return node, given


def _gemm(node: Node, *inputs: Any) -> Tensor:
    """y is float if its scale is omitted.  The bias is int32, in steps of alpha times the product of the scales."""
    a, a_scale, a_zero, b, b_scale, b_zero, c, y_scale, y_zero = (*inputs, None, None, None)[:9]
    alpha, turned = node.get("alpha", 1.0), bool(node.get("transB", 0))
    left = dequantize(node, a, a_scale, a_zero)
    left = left.t() if node.get("transA", 0) else left
    weight = dequantize(node.having(axis=0 if turned else 1), b, b_scale, b_zero)
    steps = a_scale * b_scale if alpha == 1 else a_scale * b_scale * alpha
    bias = None if c is None else dequantize(node.having(axis=c.dim() - 1), c, steps)
    made = _linear(left, weight if turned else weight.t(), bias, alpha)
    return made if y_scale is None else quantize(node, made, y_scale, y_zero)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None, alpha: float) -> Tensor:
    if alpha == 1 and (bias is None or bias.dim() == 1):
        return functional.linear(x, weight, bias)
    made = functional.linear(x, weight)
    made = made if alpha == 1 else made * alpha
    return made if bias is None else made + bias


OPERATORS = {
    **OF_INTEGERS,
    **OF_FEW_BITS,
    "DequantizeLinear": quantized.OPERATORS["DequantizeLinear"],
    "QGemm": Operator(_gemm, prepare=_prepare_gemm),
    "QLinearAdd": _of_two(torch.add),
    "QLinearAveragePool": _of_one(_average),
    "QLinearConcat": Operator(_concat, prepare=_prepare_concat),
    "QLinearGlobalAveragePool": _of_one(_global_average),
    "QLinearLeakyRelu": _of_one(_leaky_relu),
    "QLinearMul": _of_two(torch.mul),
    "QLinearReduceMean": _of_one(_reduce_mean),
    "QLinearSigmoid": _of_one(lambda _, x: torch.sigmoid(x)),
    "QLinearSoftmax": _of_one(_softmax),
    "QLinearWhere": Operator(_where, prepare=said_at(2, 3, 5, 6, 7, 8)),
    "QuantizeLinear": quantized.OPERATORS["QuantizeLinear"],
}
