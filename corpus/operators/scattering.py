"""Interpreter ops that write to indices, and ops that make or change integers and booleans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from opdb.core.graph import QnnGraph

Params = dict[str, Any]
#: Combines the old and the new value, by the numbers of QnnOpDef.h.
REDUCTIONS: Mapping[int, Callable[[Any, Any], Any]] = {
    0: lambda old, new: new,
    1: lambda old, new: old + new,
    2: lambda old, new: old * new,
    3: lambda old, new: torch.maximum(old, new),
}


def scatter_elements(x: list[Any], p: Params, *_: Any) -> Tensor:
    y, axis, reduce = x[0].clone(), p.get("axis", 0), REDUCTIONS[p.get("reduction", 0)]
    for place in np.ndindex(*x[1].shape):
        to = list(place)
        to[axis] = int(x[1][place])
        assert 0 <= to[axis] < y.shape[axis]
        y[tuple(to)] = reduce(y[tuple(to)], x[2][place])
    return y


def scatter_nd(x: list[Any], p: Params, *_: Any) -> Tensor:
    y, reduce = x[0].clone(), REDUCTIONS[p.get("reduction", 0)]
    for place in np.ndindex(*x[1].shape[:-1]):
        to = tuple(int(i) for i in x[1][place])
        assert all(0 <= i < d for i, d in zip(to, y.shape, strict=False))
        y[to] = reduce(y[to], x[2][place])
    return y


def cast(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    stored = {"f32": "float32", "f16": "float16", "i32": "int32", "u8": "uint8", "bool8": "bool"}
    return x[0].to(getattr(torch, stored[graph.tensors[outputs[0]].dtype]))


SCATTERING: Mapping[str, Callable[..., Any]] = {
    "Cast": cast,
    "ElementWiseMod": lambda x, p, *_: torch.remainder(x[0], x[1]),
    "ScatterElements": scatter_elements,
    "ScatterNd": scatter_nd,
}
