"""Products of whole numbers, and quantization whose scale is computed when the model runs.

QNN has no such quantization: the numbers of ONNX Runtime are computed in floats.  ``chains`` finds where a product and
what turns it into floats stand apart; the product alone is exact in whole numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Value
from opdb.programs.onnx.operators.products import conv
from opdb.programs.onnx.operators.quantized import dequantize, said_at

#: The largest number of 8 bits, which dynamic quantization is of.
LARGEST = 255


def _matmul(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """A zero point of ``a`` has one number for each row, that of ``b`` for each column."""
    left, right = a.to(torch.int32), b.to(torch.int32)
    if a_zero is not None:
        left = left - (a_zero.unsqueeze(-1) if a_zero.dim() == 1 and a_zero.numel() > 1 else a_zero)
    return torch.matmul(left, right if b_zero is None else right - b_zero)


def _conv(
    node: Node, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """In float64, which has all sums of such products: PyTorch has no convolution of whole numbers."""
    image, filters = x.to(torch.float64), w.to(torch.float64)
    image = image if x_zero is None else image - x_zero.to(torch.float64)
    if w_zero is not None:
        zero = w_zero.to(torch.float64)
        filters = filters - (zero.reshape(-1, *[1] * (w.dim() - 1)) if zero.numel() > 1 else zero.reshape(()))
    return conv(node, image, filters).to(torch.int32)


def dynamic(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in whole steps from its zero point, the scale, the zero point, all in floats (ONNX's DynamicQuantizeLinear)."""
    low, high = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
    scale = (high - low) / LARGEST
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.clamp(torch.round(-low / scale), 0, LARGEST)
    steps = torch.round(x / scale)
    return torch.minimum(torch.maximum(steps, -zero), LARGEST - zero), scale, zero


def _dynamic(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    """ONNX's three results, and what the first stands for."""
    steps, scale, zero = dynamic(x)
    return (steps + zero).to(torch.uint8), scale, zero.to(torch.uint8), steps * scale


def _dynamic_in_floats(node: Node, x: Tensor) -> Tensor:
    steps, scale, _ = dynamic(x)
    return steps * scale


def _prepare_weight(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Of inputs x, weight, scale and zero point of the weight: a matrix of the file stands as torch.nn.Linear has it."""
    node, given = said_at(2, 3)(node, given)
    if isinstance(given[1], np.ndarray) and given[1].ndim == 2:
        return node.having(turned=True), [given[0], np.ascontiguousarray(given[1].T), *given[2:]]
    return node, given


def _product(
    node: Node,
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    zero: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Of floats with a weight of integers, whose scale is one number or one for each column."""
    if node.get("turned"):
        return functional.linear(x, dequantize(node.having(axis=0), weight, scale, zero), bias)
    made = torch.matmul(x, dequantize(node.having(axis=-1), weight, scale, zero))
    return made if bias is None else made + bias


def _dynamic_matmul(node: Node, x: Tensor, *weight: Any) -> Tensor:
    return _product(node, _dynamic_in_floats(node, x), *weight)


def _to_float(
    node: Node, a: Tensor, b: Tensor, a_scale: Tensor, b_scale: Tensor, *more: Tensor | None
) -> Tensor:
    """``more``: zero points of a and b, bias."""
    a_zero, b_zero, bias = (*more, None, None, None)[:3]
    left = a.to(a_scale.dtype) if a_zero is None else a.to(a_scale.dtype) - a_zero.to(a_scale.dtype)
    return _product(node, left * a_scale, b, b_scale, b_zero, bias)


def _prepare_to_float(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    a, b, a_scale, b_scale, a_zero, b_zero, *bias = (*given, None, None)[: max(6, len(given))]
    node, (_, b, b_scale, b_zero) = _prepare_weight(node, [a, b, b_scale, b_zero])
    return node, [a, b, a_scale, b_scale, a_zero, b_zero, *bias]


def _conv_product(node: Node, x: Tensor, weight: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    return conv(node, x, dequantize(node.having(axis=0), weight, scale, zero))


#: Of ONNX itself.
OWN = {
    "ConvInteger": Operator(_conv),
    "DynamicQuantizeLinear": Operator(_dynamic),
    "MatMulInteger": Operator(_matmul),
}
#: Of com.microsoft.
OPERATORS = {
    "DynamicQuantizeMatMul": Operator(_dynamic_matmul, prepare=_prepare_weight),
    "MatMulIntegerToFloat": Operator(_to_float, prepare=_prepare_to_float),
}
#: What ``chains`` puts in the place of several nodes: products of x in floats, the weight, its scale and zero point.
OF_CHAINS = {
    "ConvInteger": Operator(_conv_product, prepare=said_at(2, 3)),
    "DynamicQuantizeLinear": Operator(_dynamic_in_floats),
    "MatMul": Operator(lambda _, x, weight, bias: functional.linear(x, weight, bias)),
    "MatMulInteger": Operator(_product, prepare=_prepare_weight),
}
