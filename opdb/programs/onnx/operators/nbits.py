"""com.microsoft's MatMulNBits: a weight of few bits, in blocks along the summed dimension."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value
from opdb.programs.onnx.operators.quantized import WITH_ZERO_POINTS, dequantize


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Unpacks ``count`` numbers of ``bits`` bits from bytes, low bits first, along the last dimension."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    parts = (packed[..., None] >> shifts) & np.uint8(2**bits - 1)
    return np.ascontiguousarray(parts.reshape(*packed.shape[:-1], -1)[..., :count])


def _prepare(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
    """Returns x, the weight [N, K] as signed integers, scales and zero points [N, K / block], bias."""
    x, packed, scales, zeros, order, bias = (*given, None, None, None)[:6]
    bits, block, n, k = node.get("bits", 4), node["block_size"], node["N"], node["K"]
    if bits not in (2, 4, 8):
        raise Unreadable(f"weights of {bits} bits")
    if order is not None:
        raise Unreadable("the order of columns, g_idx")
    if not (isinstance(packed, np.ndarray) and isinstance(scales, np.ndarray)) or isinstance(zeros, Tensor):
        raise Unreadable("a weight that is only computed when the model runs; it has to be in the file")
    if zeros is not None and zeros.dtype != np.uint8:
        raise Unreadable(f"zero points of {zeros.dtype}")
    blocks, middle = -(-k // block), 2 ** (bits - 1)
    stored = _unpacked(packed.reshape(n, -1), bits, blocks * block)[:, :k].astype(np.int16)
    scales = scales.reshape(n, blocks)
    node = node.having(axis=1, block_size=block, encoded=True)
    if blocks == 1:
        scales, node = scales.reshape(n), node.having(axis=0, block_size=0)
    zero = np.full((n, blocks), middle) if zeros is None else _unpacked(zeros.reshape(n, -1), bits, blocks)
    less = np.repeat(zero.astype(np.int16), block, 1)[:, :k]
    if bits == 8 and (less != middle).any():  # minus the zero points they have 9 bits
        spread = np.repeat(scales.reshape(n, blocks), block, 1)[:, :k]
        return node.having(encoded=False), [x, (stored - less) * spread, None, None, bias]
    ends = (-middle, middle - 1) if (less == middle).all() else (1 - 2**bits, 2**bits - 1)
    weight = (stored - less).astype(np.int8)
    if ends == (-15, 15):
        ends, weight, scales = WITH_ZERO_POINTS, weight * np.int8(8), scales / scales.dtype.type(8)
    return node.having(ends=ends), [x, weight, scales, np.zeros(scales.shape, np.int8), bias]


def _matmul(node: Node, x: Tensor, weight: Tensor, scales: Any, zeros: Any, bias: Any = None) -> Tensor:
    made = dequantize(node, weight, scales, zeros) if node["encoded"] else weight
    return functional.linear(x, made if made.dtype == x.dtype else made.to(x.dtype), bias)


OPERATORS = {"MatMulNBits": Operator(_matmul, prepare=_prepare)}
