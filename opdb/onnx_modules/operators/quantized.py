"""Quantization: PT2E's operators where the file says the encoding, which the reader of programs takes for QNN's; else in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import Tensor

from opdb.onnx_modules.node import Node, Operator, Unreadable, Value, axis, dtype
from opdb.onnx_modules.operators.products import conv

#: Types of quantized numbers that PyTorch computes with.
RANGES = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.int16: (-32768, 32767),
    torch.uint16: (0, 65535),
    torch.int32: (-(2**31), 2**31 - 1),
}
#: Types of fewer bits, which PyTorch stores in one of these.
NARROW = {"int4": (np.int8, (-8, 7)), "uint4": (np.uint8, (0, 15))}
PT2E = torch.ops.quantized_decomposed


def _along(node: Node, x: Tensor, encoding: Tensor) -> Tensor:
    """Scale or offset in a shape that broadcasts with ``x``: of all, of a dimension, or of blocks of one."""
    block = node.get("block_size", 0)
    d = axis(node, x.dim(), 1)
    if block:
        return encoding.repeat_interleave(block, d).narrow(d, 0, x.shape[d])
    if encoding.numel() == 1 or encoding.dim() != 1:
        return encoding.reshape(()) if encoding.numel() == 1 else encoding
    return encoding.reshape([-1 if i == d else 1 for i in range(x.dim())])


def _prepare(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Notes whether the file says the encoding, and stores integers of 4 bits as such of 8."""
    encoding = given[1:3]
    said = not node.get("block_size", 0) and not any(isinstance(v, Tensor) for v in encoding)
    for i, value in enumerate(given):
        if isinstance(value, np.ndarray) and value.dtype.name in NARROW:
            kind, ends = NARROW[value.dtype.name]
            node = node.having(ends=ends)
            given = [*given[:i], value.astype(kind), *given[i + 1 :]]
    return node.having(encoded=said), given


def _prepare_linear(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Of an operator whose inputs 1, 2, 4, 5, 6 and 7 are the encodings of x, the other factor and y."""
    said = not any(isinstance(given[i], Tensor) for i in (1, 2, 4, 5, 6, 7))
    return node.having(encoded=said), given


def _encoding(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, kind: torch.dtype) -> list[Any]:
    """What PT2E's operators take behind the tensor; of more than one scale with the axis."""
    low, high = node.get("ends", RANGES[kind])
    zero = torch.zeros(scale.shape, dtype=torch.int32) if zero is None else zero.to(torch.int32)
    if scale.numel() == 1:
        return [scale.reshape(()), zero.reshape(()), low, high, kind]
    return [scale, zero, axis(node, x.dim(), 1), low, high, kind]


def _quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    kind = dtype(node["output_dtype"]) if node.get("output_dtype") else torch.uint8
    kind = kind if zero is None else zero.dtype
    if kind not in RANGES:
        raise Unreadable(f"quantized numbers of {kind}")
    if node.get("encoded"):
        given = _encoding(node, x, scale, zero, kind)
        if scale.numel() == 1:
            return PT2E.quantize_per_tensor.tensor(x, *given)
        return PT2E.quantize_per_channel.default(x, *given)
    steps = torch.round(x.to(scale.dtype) / _along(node, x, scale))
    if zero is not None:
        steps = steps + _along(node, x, zero).to(scale.dtype)
    return torch.clamp(steps, *RANGES[kind]).to(kind)


def _dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    if node.get("encoded") and x.dtype in RANGES:
        given = _encoding(node, x, scale, zero, x.dtype)
        if scale.numel() == 1:
            return PT2E.dequantize_per_tensor.tensor(x, *given)
        return PT2E.dequantize_per_channel.default(x, *given)
    steps = x.to(scale.dtype)
    if zero is not None:
        steps = steps - _along(node, x, zero).to(scale.dtype)
    made = steps * _along(node, x, scale)
    return made.to(dtype(node["output_dtype"])) if node.get("output_dtype") else made


def _linear_matmul(node: Node, *inputs: Tensor) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = _dequantize(node.having(axis=-2), a, a_scale, a_zero)
    right = _dequantize(node.having(axis=-1), b, b_scale, b_zero)
    return _quantize(node.having(axis=-2), torch.matmul(left, right), y_scale, y_zero)


def _linear_conv(node: Node, *inputs: Tensor) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    filters = _dequantize(node.having(axis=0), w, w_scale, w_zero)
    added = _dequantize(node.having(axis=0), bias[0], x_scale * w_scale) if bias else None
    made = conv(node, _dequantize(node, x, x_scale, x_zero), filters, added)
    return _quantize(node, made, y_scale, y_zero)


OPERATORS = {
    "DequantizeLinear": Operator(_dequantize, prepare=_prepare),
    "QLinearConv": Operator(_linear_conv, prepare=_prepare_linear),
    "QLinearMatMul": Operator(_linear_matmul, prepare=_prepare_linear),
    "QuantizeLinear": Operator(_quantize, prepare=_prepare),
}
