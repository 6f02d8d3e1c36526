"""Operators that read and write at indices."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from torch import Tensor

from opdb.programs.onnx.node import Node, Operator, Unreadable, Value, axis, tensor

#: ONNX's reduction of a scatter -> PyTorch's.
REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _counted(indices: Value, size: int) -> Tensor:
    """Makes indices nonnegative: ONNX counts negative ones from the end, PyTorch's gather and scatter do not."""
    assert indices is not None
    if isinstance(indices, np.ndarray):
        return tensor(np.where(indices < 0, indices + size, indices).astype(np.int64))
    wide = indices.to(torch.int64)
    return torch.where(wide < 0, wide + size, wide)


def _gather(node: Node, x: Tensor, indices: Value) -> Tensor:
    d = axis(node, x.dim(), 0)
    if isinstance(indices, np.ndarray):
        if indices.shape == ():
            return x.select(d, int(indices))
        flat = x.index_select(d, _counted(indices.reshape(-1), x.shape[d]))
        return flat.reshape((*x.shape[:d], *indices.shape, *x.shape[d + 1 :]))
    assert indices is not None
    return x[(slice(None),) * d + (indices.to(torch.int64),)]


def _gather_elements(node: Node, x: Tensor, indices: Value) -> Tensor:
    d = axis(node, x.dim(), 0)
    return torch.gather(x, d, _counted(indices, x.shape[d]))


def _gather_nd(node: Node, x: Tensor, indices: Tensor) -> Tensor:
    batch = node.get("batch_dims", 0)
    grid = [
        torch.arange(x.shape[b]).reshape([-1 if i == b else 1 for i in range(indices.dim() - 1)])
        for b in range(batch)
    ]
    return x[(*grid, *(indices[..., i] for i in range(indices.shape[-1])))]


def _scatter_elements(node: Node, x: Tensor, indices: Value, updates: Tensor) -> Tensor:
    d = axis(node, x.dim(), 0)
    places, reduction = _counted(indices, x.shape[d]), node.get("reduction", "none")
    if reduction == "none":
        return x.scatter(d, places, updates)
    return x.scatter_reduce(d, places, updates, REDUCTIONS[reduction])


def _scatter_nd(node: Node, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    depth, reduction = indices.shape[-1], node.get("reduction", "none")
    places = tuple(indices[..., i] for i in range(depth))
    if reduction in ("none", "add"):
        return torch.index_put(x, places, updates, accumulate=reduction == "add")
    row = prod(x.shape[depth:])
    flat = sum(_counted(p, x.shape[i]) * prod(x.shape[i + 1 : depth]) for i, p in enumerate(places))
    assert isinstance(flat, Tensor)
    rows = flat.reshape(-1, 1).expand(flat.numel(), row)
    made = x.reshape(-1, row).scatter_reduce(0, rows, updates.reshape(-1, row), REDUCTIONS[reduction])
    return made.reshape(x.shape)


def _compress(node: Node, x: Tensor, condition: Value) -> Tensor:
    chosen = node.known("condition", condition)
    assert chosen is not None
    d = node.get("axis")
    x, d = (x.reshape(-1), 0) if d is None else (x, d)
    return x.index_select(d, torch.from_numpy(np.flatnonzero(chosen)))


def _one_hot(node: Node, indices: Tensor, depth: Value, values: Tensor) -> Tensor:
    """Indices outside [-depth, depth) give all "off"."""
    count = node.needed("depth", depth)[0]
    d = axis(node, indices.dim() + 1, -1)
    at = indices.to(torch.int64).unsqueeze(d)
    places = torch.arange(count).reshape([-1 if i == d else 1 for i in range(at.dim())])
    return torch.where((at == places) | (at == places - count), values[1], values[0])


def _reverse_sequence(node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = node.get("batch_axis", 1), node.get("time_axis", 0)
    if {batch, time} != {0, 1}:
        raise Unreadable(f"its axes are {batch} and {time}; ONNX has 0 and 1")
    length = lengths.reshape([-1 if i == batch else 1 for i in range(x.dim())])
    place = torch.arange(x.shape[time]).reshape([-1 if i == time else 1 for i in range(x.dim())])
    return torch.gather(x, time, torch.where(place < length, length - 1 - place, place).expand(x.shape))


def _tensor_scatter(node: Node, cache: Tensor, update: Tensor, places: Tensor | None = None) -> Tensor:
    """Writes each batch's update into its cache from the batch's own position on; "circular" wraps around."""
    d = axis(node, cache.dim(), -2)
    at = torch.arange(update.shape[d]).reshape(1, -1)
    if places is not None:
        at = at + places.reshape(-1, 1)
    if node.get("mode", "linear") == "circular":
        at = torch.remainder(at, cache.shape[d])
    shape = [at.shape[0], *(at.shape[1] if i == d else 1 for i in range(1, cache.dim()))]
    return cache.scatter(d, at.reshape(shape).expand(update.shape), update)


OPERATORS = {
    "Compress": Operator(_compress, known=(1,)),
    "Gather": Operator(_gather, known=(1,)),
    "GatherElements": Operator(_gather_elements, known=(1,)),
    "GatherND": Operator(_gather_nd),
    "OneHot": Operator(_one_hot, known=(1,)),
    "ReverseSequence": Operator(_reverse_sequence),
    "Scatter": Operator(_scatter_elements, known=(1,)),
    "ScatterElements": Operator(_scatter_elements, known=(1,)),
    "ScatterND": Operator(_scatter_nd),
    "TensorScatter": Operator(_tensor_scatter),
}
