"""Matrix products and convolutions."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value
from opdb.programs.onnx.operators.windows import Window, window

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def _known_matrix(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind == "f"


def _turned(value: Value) -> Array:
    assert isinstance(value, np.ndarray)
    return np.ascontiguousarray(value.T)


def _weights_last(node: Node, inputs: list[Value]) -> tuple[Node, list[Value]]:
    """Transposes a matrix from the file to torch.nn.Linear's layout, [out, in]."""
    if not _known_matrix(inputs[1]) or node.get("transB", 0):
        return node, inputs
    return node.having(transB=1), [inputs[0], _turned(inputs[1]), *inputs[2:]]


def _gemm(node: Node, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    a = a.t() if node.get("transA", 0) else a
    weight = b if node.get("transB", 0) else b.t()
    if c is None:
        return functional.linear(a, weight) if alpha == 1 else functional.linear(a, weight) * alpha
    if (alpha, beta) == (1, 1) and c.dim() == 1 and c.shape[0] == weight.shape[0]:
        return functional.linear(a, weight, c)
    product, added = functional.linear(a, weight), c
    return (product if alpha == 1 else product * alpha) + (added if beta == 1 else added * beta)


def _matmul(node: Node, a: Tensor, b: Tensor) -> Tensor:
    return functional.linear(a, b) if node.get("transB", 0) else torch.matmul(a, b)


def conv(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    rank = x.dim() - 2
    at = window(node, x, list(w.shape[2:]))
    if rank not in CONVOLUTIONS:
        raise Unreadable(f"PyTorch has convolutions of 1 to 3 dimensions, not {rank}")
    if not at.symmetric:
        x = functional.pad(x, at.flat)
    padding = at.before if at.symmetric else [0] * rank
    return CONVOLUTIONS[rank](x, w, b, at.strides, padding, at.dilations, node.get("group", 1))


def _conv_transpose(node: Node, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    rank, kernel = x.dim() - 2, list(w.shape[2:])
    if rank not in TRANSPOSED:
        raise Unreadable(f"PyTorch has convolutions of 1 to 3 dimensions, not {rank}")
    strides, dilations = node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank
    extra = node.ints("output_padding") or [0] * rank
    whole = [
        (n - 1) * s + (k - 1) * d + 1
        for n, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    before, after = _cut(node, x, whole, strides, extra)
    if before == after and all(e < max(s, d) for e, s, d in zip(extra, strides, dilations, strict=True)):
        return TRANSPOSED[rank](x, w, b, strides, before, extra, node.get("group", 1), dilations)
    y = TRANSPOSED[rank](x, w, None, strides, 0, 0, node.get("group", 1), dilations)
    ends = [-p for p in before], [e - p for e, p in zip(extra, after, strict=True)]
    y = functional.pad(y, [n for d in reversed(range(rank)) for n in (ends[0][d], ends[1][d])])
    return y if b is None else y + b.reshape([-1] + [1] * rank)


def _cut(
    node: Node, x: Tensor, whole: list[int], strides: list[int], extra: list[int]
) -> tuple[list[int], list[int]]:
    """The number of elements cut off the full result at its beginning and end, besides ``extra`` at the end."""
    rank = len(whole)
    shape, auto = node.ints("output_shape"), node.get("auto_pad", "NOTSET")
    if shape is None and auto.startswith("SAME"):
        shape = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if shape is None:
        pads = node.ints("pads") or [0] * 2 * rank
        return (pads[:rank], pads[rank:]) if auto == "NOTSET" else ([0] * rank, [0] * rank)
    totals = [w + e - n for w, e, n in zip(whole, extra, shape[-rank:], strict=True)]
    small = [t // 2 for t in totals]
    large = [t - s for t, s in zip(totals, small, strict=True)]
    return (small, large) if auto == "SAME_UPPER" else (large, small)


def _einsum(node: Node, *inputs: Tensor) -> Tensor:
    return torch.einsum(node["equation"].replace(" ", ""), *inputs)


def _col2im(node: Node, x: Tensor, image: Value, block: Value) -> Tensor:
    shape, kernel = node.needed("image_shape", image), node.needed("block_shape", block)
    rank = len(shape)
    at = Window(
        kernel, node.ints("strides") or [1] * rank, node.ints("dilations") or [1] * rank,
        (node.ints("pads") or [0] * 2 * rank)[:rank], (node.ints("pads") or [0] * 2 * rank)[rank:],
    )  # fmt: skip
    if rank != 2 or not at.symmetric:
        raise Unreadable("PyTorch's fold is of images with equal pads at both ends")
    return functional.fold(
        x, tuple(shape), tuple(kernel), tuple(at.dilations), tuple(at.before), tuple(at.strides)
    )


OPERATORS = {
    "Col2Im": Operator(_col2im, known=(1, 2)),
    "Conv": Operator(conv),
    "ConvTranspose": Operator(_conv_transpose),
    "Einsum": Operator(_einsum),
    "Gemm": Operator(_gemm, prepare=_weights_last),
    "MatMul": Operator(_matmul, prepare=_weights_last),
}
