"""Operators that change shapes, and operators that return them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value, array, axis, dtype

#: ONNX's name of a padding -> PyTorch's, numpy's.
MODES = {"reflect": ("reflect", "reflect"), "edge": ("replicate", "edge"), "wrap": ("circular", "wrap")}


def _concat(node: Node, *inputs: Tensor) -> Tensor:
    return torch.cat(inputs, axis(node, inputs[0].dim(), 1))


def _depth_to_space(node: Node, x: Tensor) -> Tensor:
    block = node["blocksize"]
    if node.get("mode", "DCR") == "CRD":
        return functional.pixel_shuffle(x, block)
    n, c, h, w = x.shape
    y = x.reshape(n, block, block, c // block**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // block**2, h * block, w * block)


def _space_to_depth(node: Node, x: Tensor) -> Tensor:
    """The attribute ``mode`` is new in opset 28."""
    block = node["blocksize"]
    if node.get("mode", "DCR") == "CRD":
        return functional.pixel_unshuffle(x, block)
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // block, block, w // block, block).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * block**2, h // block, w // block)


def _expand(node: Node, x: Tensor, shape: Value) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, node.needed("shape", shape)))


def _eye_like(node: Node, x: Tensor) -> Array:
    """The result depends only on the shape, so it is known."""
    kind = dtype(node["dtype"]) if node.get("dtype") else x.dtype
    rows, columns = x.shape
    return array(torch.from_numpy(np.eye(rows, columns, node.get("k", 0), dtype=np.int8)).to(kind))


def _flatten(node: Node, x: Tensor) -> Tensor:
    d = axis(node, x.dim(), 1)
    return x.reshape(prod(x.shape[:d]), prod(x.shape[d:]))


def _pad(node: Node, x: Tensor, pads: Value = None, fill: Value = None, axes: Value = None) -> Tensor:
    """The pads and the value are attributes before opset 11."""
    sizes = node.needed("pads", pads)
    dims = [d % x.dim() for d in node.ints("axes", axes) or range(x.dim())]
    around = {d: (sizes[i], sizes[i + len(dims)]) for i, d in enumerate(dims)}
    mode = node.get("mode", "constant")
    if mode == "constant":
        flat = [n for d in reversed(range(x.dim())) for n in around.get(d, (0, 0))]
        known = node.known("constant_value", fill)
        return functional.pad(x, flat, value=node.get("value", 0.0) if known is None else known.item())
    if mode not in MODES:
        raise Unreadable(f"the mode '{mode}' is none of constant, {', '.join(MODES)}")
    torch_mode, numpy_mode = MODES[mode]
    padded = {d: p for d, p in around.items() if p != (0, 0)}
    last = x.dim() - min(padded, default=x.dim())
    if (
        padded
        and min(n for p in padded.values() for n in p) >= 0
        and last in (1, 2, 3)
        and x.dim() - last in (1, 2)
    ):
        flat = [n for d in reversed(range(x.dim() - last, x.dim())) for n in around.get(d, (0, 0))]
        return functional.pad(x, flat, mode=torch_mode)
    for d, (before, after) in padded.items():
        places: Array = np.pad(np.arange(x.shape[d]), (max(before, 0), max(after, 0)), mode=numpy_mode)  # type: ignore[call-overload]
        places = places[max(-before, 0) : len(places) - max(-after, 0)]
        x = x.index_select(d, torch.from_numpy(places))
    return x


def _reshape(node: Node, x: Tensor, shape: Value = None) -> Tensor:
    wanted = node.needed("shape", shape)
    if not node.get("allowzero", 0):
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return x.reshape(wanted)


def _shape(node: Node, x: Tensor) -> Array:
    return np.array(tuple(x.shape)[slice(node.get("start", 0), node.get("end"))], np.int64)


def _size(node: Node, x: Tensor) -> Array:
    return np.array(x.numel(), np.int64)


def _slice(
    node: Node, x: Tensor, starts: Value = None, ends: Value = None, axes: Value = None, steps: Value = None
) -> Tensor:
    """All are attributes before opset 10."""
    first, last = node.needed("starts", starts), node.needed("ends", ends)
    dims = node.ints("axes", axes) or list(range(len(first)))
    strides = node.ints("steps", steps) or [1] * len(first)
    for d, start, stop, step in zip(dims, first, last, strides, strict=True):
        places = range(*slice(start, stop, step).indices(x.shape[d]))
        if places == range(x.shape[d]):
            continue
        if step < 0 and len(places):
            x = x.flip(d)
            places = range(x.shape[d] - 1 - places[0], x.shape[d] - places[-1], -step)
        cut = slice(places.start, places.stop, places.step) if len(places) else slice(0, 0)
        x = x[(slice(None),) * (d % x.dim()) + (cut,)]
    return x


def _split(node: Node, x: Tensor, split: Value = None) -> tuple[Tensor, ...]:
    """Splits into equal parts, of which the last may be smaller, if no sizes are given."""
    d = axis(node, x.dim(), 0)
    sizes = node.ints("split", split)
    if sizes is None:
        part = -(-x.shape[d] // node.get("num_outputs", node.outputs))
        return tuple(torch.split(x, part, d))
    return tuple(torch.split(x, sizes, d))


def _squeeze(node: Node, x: Tensor, axes: Value = None) -> Tensor:
    dims = node.ints("axes", axes)
    return x.squeeze() if dims is None else x.squeeze(tuple(dims))


def _unsqueeze(node: Node, x: Tensor, axes: Value = None) -> Tensor:
    dims = node.needed("axes", axes)
    for d in sorted(d % (x.dim() + len(dims)) for d in dims):
        x = x.unsqueeze(d)
    return x


def _tile(node: Node, x: Tensor, repeats: Value) -> Tensor:
    return x.repeat(node.needed("repeats", repeats))


def _transpose(node: Node, x: Tensor) -> Tensor:
    return x.permute(node.ints("perm") or list(reversed(range(x.dim()))))


def _trilu(node: Node, x: Tensor, k: Value = None) -> Tensor:
    known = node.known("k", k)
    return (torch.triu if node.get("upper", 1) else torch.tril)(x, 0 if known is None else int(known.item()))


def _of_unknown_shape(node: Node, *_: Any) -> Any:
    raise Unreadable("the shape of its result is only known when the model runs")


OPERATORS = {
    "Concat": Operator(_concat),
    "ConstantOfShape": Operator(_of_unknown_shape),
    "DepthToSpace": Operator(_depth_to_space),
    "Expand": Operator(_expand, known=(1,)),
    "EyeLike": Operator(_eye_like),
    "Flatten": Operator(_flatten),
    "NonZero": Operator(_of_unknown_shape),
    "Pad": Operator(_pad, known=(1, 2, 3)),
    "Range": Operator(_of_unknown_shape),
    "Reshape": Operator(_reshape, known=(1,)),
    "Shape": Operator(_shape),
    "Size": Operator(_size),
    "Slice": Operator(_slice, known=(1, 2, 3, 4)),
    "SpaceToDepth": Operator(_space_to_depth),
    "Split": Operator(_split, known=(1,)),
    "Squeeze": Operator(_squeeze, known=(1,)),
    "Tile": Operator(_tile, known=(1,)),
    "Transpose": Operator(_transpose),
    "Trilu": Operator(_trilu, known=(1,)),
    "Unique": Operator(_of_unknown_shape),
    "Unsqueeze": Operator(_unsqueeze, known=(1,)),
}
