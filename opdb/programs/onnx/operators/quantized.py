"""Quantization: PT2E's operators if the file gives the encoding (opdb.programs.torch reads it as QNN's), else plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import Tensor

from opdb.programs.onnx.chains import TURNED
from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value, axis, dtype
from opdb.programs.onnx.operators.blocks import dequantize_blocks
from opdb.programs.onnx.operators.products import conv

#: Types of quantized numbers that PyTorch computes with.
RANGES = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.int16: (-32768, 32767),
    torch.uint16: (0, 65535),
    torch.int32: (-(2**31), 2**31 - 1),
}
#: Types of fewer bits -> the type in which PyTorch stores them, and their range.
NARROW = {"int4": (np.int8, (-8, 7)), "uint4": (np.uint8, (0, 15))}
#: The range of 4-bit weights minus their zero points, as stored in 8 bits.
WITH_ZERO_POINTS = (-120, 120)
PT2E = torch.ops.quantized_decomposed


def along(node: Node, x: Tensor, encoding: Tensor) -> Tensor:
    """Scale or zero point in a shape that broadcasts with ``x``: one, one per channel, or one per block of a dimension."""
    block = node.get("block_size", 0)
    d = axis(node, x.dim(), 1)
    if block:
        return encoding.repeat_interleave(block, d).narrow(d, 0, x.shape[d])
    if encoding.numel() == 1 or encoding.dim() != 1:
        return encoding.reshape(()) if encoding.numel() == 1 else encoding
    return encoding.reshape([-1 if i == d else 1 for i in range(x.dim())])


def _prepare(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Notes if the file gives the encoding, and stores 4-bit integers in 8 bits; for weights see ``centered``."""
    said = not any(isinstance(v, Tensor) for v in given[1:3])
    if node.get(TURNED):
        given = [np.ascontiguousarray(v.T) if np.ndim(v) == 2 else v for v in given]  # type: ignore[union-attr, arg-type]
        node = node.having(axis=1 - axis(node, 2, 1))
    if said and node.op == "DequantizeLinear" and isinstance(given[0], np.ndarray):
        node, given = centered(node, given)
    for i, value in enumerate(given):
        if isinstance(value, np.ndarray) and value.dtype.name in NARROW:
            stored, ends = _in_bytes(value)
            node, given = node.having(ends=ends), [*given[:i], stored, *given[i + 1 :]]
    blocks = bool(node.get("block_size", 0))
    zero = given[2] if len(given) > 2 else None
    known = isinstance(given[0], np.ndarray) and (zero is None or not np.any(np.asarray(zero)))
    return node.having(encoded=said and (known or not blocks)), given


def _in_bytes(value: Array) -> tuple[Array, tuple[int, int] | None]:
    """Widens 4-bit integers to 8 bits, with their range; returns others as they are, with None."""
    if value.dtype.name not in NARROW:
        return value, None
    kind, ends = NARROW[value.dtype.name]
    return value.astype(kind), ends


def centered(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Makes a 4-bit weight symmetric around zero: in 4 bits if all its zero points are in the middle, else in 8.

    The real values are the same: stored values minus zero points lie between -15 and 15.  They are stored 8 times as large, because
    HTP's 16-bit sums were more accurate that way (docs/results/quantized-onnx.md).
    """
    weight, scale, zero = (*given, None)[:3]
    assert isinstance(weight, np.ndarray) and isinstance(scale, np.ndarray)
    stored, ends = _in_bytes(weight)
    if ends is None:
        return node, given
    less = np.zeros((), np.int16) if zero is None else _in_bytes(np.asarray(zero))[0].astype(np.int16)
    spread = along(node, torch.from_numpy(stored), torch.from_numpy(less)).numpy() if less.ndim else less
    values = (stored.astype(np.int16) - spread).astype(np.int8)
    middle = 8 if ends == NARROW["uint4"][1] else 0
    if (less == middle).all():
        return node.having(ends=NARROW["int4"][1]), [
            values,
            scale,
            np.zeros(scale.shape, np.int8),
            *given[3:],
        ]
    wide = [values * np.int8(8), np.asarray(scale / scale.dtype.type(8)), np.zeros(scale.shape, np.int8)]
    return node.having(ends=WITH_ZERO_POINTS), [*wide, *given[3:]]


def said_at(*places: int) -> Callable[[Node, list[Value]], tuple[Node, list[Value]]]:
    """Makes a ``prepare`` that notes if the file gives the encodings, which are the inputs at ``places``."""

    def prepare(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
        said = not any(isinstance(given[i], Tensor) for i in places if i < len(given))
        return node.having(encoded=said), given

    return prepare


def _encoding(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, kind: torch.dtype) -> list[Any]:
    """The arguments of PT2E's operators after the tensor; more than one scale needs the axis."""
    low, high = node.get("ends", RANGES[kind])
    zero = torch.zeros(scale.shape, dtype=torch.int32) if zero is None else zero.to(torch.int32)
    if scale.numel() == 1:
        return [scale.reshape(()), zero.reshape(()), low, high, kind]
    return [scale, zero, axis(node, x.dim(), 1), low, high, kind]


def quantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    kind = dtype(node["output_dtype"]) if node.get("output_dtype") else torch.uint8
    kind = kind if zero is None else zero.dtype
    if kind not in RANGES:
        raise Unreadable(f"quantized numbers of {kind}")
    if node.get("encoded"):
        given = _encoding(node, x, scale, zero, kind)
        if scale.numel() == 1:
            return PT2E.quantize_per_tensor.tensor(x, *given)
        return PT2E.quantize_per_channel.default(x, *given)
    steps = torch.round(x.to(scale.dtype) / along(node, x, scale))
    if zero is not None:
        steps = steps + along(node, x, zero).to(scale.dtype)
    return torch.clamp(steps, *RANGES[kind]).to(kind)


def dequantize(node: Node, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    if node.get("encoded") and x.dtype in RANGES:
        if node.get("block_size", 0) and scale.dim() > 1:
            ends = node.get("ends", RANGES[x.dtype])
            return dequantize_blocks(x, scale, axis(node, x.dim(), 1), node["block_size"], *ends)
        given = _encoding(node, x, scale, zero, x.dtype)
        if scale.numel() == 1:
            return PT2E.dequantize_per_tensor.tensor(x, *given)
        return PT2E.dequantize_per_channel.default(x, *given)
    steps = x.to(scale.dtype)
    if zero is not None:
        steps = steps - along(node, x, zero).to(scale.dtype)
    made = steps * along(node, x, scale)
    return made.to(dtype(node["output_dtype"])) if node.get("output_dtype") else made


def _linear_matmul(node: Node, *inputs: Tensor) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    left = dequantize(node.having(axis=-2), a, a_scale, a_zero)
    right = dequantize(node.having(axis=-1), b, b_scale, b_zero)
    return quantize(node.having(axis=-2), torch.matmul(left, right), y_scale, y_zero)


def _linear_conv(node: Node, *inputs: Tensor) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, *bias = inputs
    filters = dequantize(node.having(axis=0), w, w_scale, w_zero)
    added = dequantize(node.having(axis=0), bias[0], x_scale * w_scale) if bias else None
    made = conv(node, dequantize(node, x, x_scale, x_zero), filters, added)
    return quantize(node, made, y_scale, y_zero)


OPERATORS = {
    "DequantizeLinear": Operator(dequantize, prepare=_prepare),
    "QLinearConv": Operator(_linear_conv, prepare=said_at(1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": Operator(_linear_matmul, prepare=said_at(1, 2, 4, 5, 6, 7)),
    "QuantizeLinear": Operator(quantize, prepare=_prepare),
}
