"""Integer products, and quantization whose scale is computed when the model runs.

QNN has no such quantization, so ONNX Runtime's numbers are computed in floats.  ``chains`` joins a product with the separate
nodes that turn it into floats; the product alone is computed exactly, in integers.
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

#: The largest 8-bit number; dynamic quantization has 8 bits.
LARGEST = 255


def _matmul(
    node: Node, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    """A zero point of ``a`` has one number per row, one of ``b`` has one per column."""
    left, right = a.to(torch.int32), b.to(torch.int32)
    if a_zero is not None:
        left = left - (a_zero.unsqueeze(-1) if a_zero.dim() == 1 and a_zero.numel() > 1 else a_zero)
    return torch.matmul(left, right if b_zero is None else right - b_zero)


def _conv(
    node: Node, x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    """Computes in float64, which holds all these sums exactly: PyTorch has no integer convolution."""
    image, filters = x.to(torch.float64), w.to(torch.float64)
    image = image if x_zero is None else image - x_zero.to(torch.float64)
    if w_zero is not None:
        zero = w_zero.to(torch.float64)
        filters = filters - (zero.reshape(-1, *[1] * (w.dim() - 1)) if zero.numel() > 1 else zero.reshape(()))
    return conv(node, image, filters).to(torch.int32)


def dynamic(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x in integer steps from its zero point, the scale, and the zero point, all as floats (ONNX's DynamicQuantizeLinear)."""
    low, high = x.amin().clamp(max=0.0), x.amax().clamp(min=0.0)
    scale = (high - low) / LARGEST
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    zero = torch.clamp(torch.round(-low / scale), 0, LARGEST)
    steps = torch.round(x / scale)
    return torch.minimum(torch.maximum(steps, -zero), LARGEST - zero), scale, zero


def _dynamic(node: Node, x: Tensor) -> tuple[Tensor, ...]:
    """ONNX's three results, and the real values of the first."""
    steps, scale, zero = dynamic(x)
    return (steps + zero).to(torch.uint8), scale, zero.to(torch.uint8), steps * scale


def _dynamic_in_floats(node: Node, x: Tensor) -> Tensor:
    steps, scale, _ = dynamic(x)
    return steps * scale


def _prepare_weight(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Transposes a weight matrix from the file to torch.nn.Linear's layout.  Inputs: x, weight, scale and zero point of the weight."""
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
    """Product of floats and an integer weight, whose scale is one number or one per column."""
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


#: ONNX's own operators.
OWN = {
    "ConvInteger": Operator(_conv),
    "DynamicQuantizeLinear": Operator(_dynamic),
    "MatMulInteger": Operator(_matmul),
}
#: Operators of com.microsoft.
OPERATORS = {
    "DynamicQuantizeMatMul": Operator(_dynamic_matmul, prepare=_prepare_weight),
    "MatMulIntegerToFloat": Operator(_to_float, prepare=_prepare_to_float),
}
#: Operators that ``chains`` puts instead of several nodes: products of float x, the weight, its scale and zero point.
OF_CHAINS = {
    "ConvInteger": Operator(_conv_product, prepare=said_at(2, 3)),
    "DynamicQuantizeLinear": Operator(_dynamic_in_floats),
    "MatMul": Operator(lambda _, x, weight, bias: functional.linear(x, weight, bias)),
    "MatMulInteger": Operator(_product, prepare=_prepare_weight),
}
