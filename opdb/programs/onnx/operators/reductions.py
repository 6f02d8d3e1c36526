"""Reductions, softmax, cumulative sums, argmax, and top-k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from opdb.programs.onnx.node import Node, Operator, Value, axis

Reduction = Callable[[Tensor, list[int], bool], Tensor]


def _reduction(function: Reduction) -> Operator:
    """``axes`` is an attribute, or an input since opset 13 (ReduceSum) or 18."""

    def reduced(node: Node, x: Tensor, axes: Value = None) -> Tensor:
        dims = node.ints("axes", axes) or (
            [] if node.get("noop_with_empty_axes", 0) else list(range(x.dim()))
        )
        return function(x, sorted(d % max(x.dim(), 1) for d in dims), bool(node.get("keepdims", 1)))

    return Operator(reduced, known=(1,))


def _sum(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return x.sum(dims, keepdim=keep, dtype=x.dtype) if dims else x


def _mean(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    if not dims:
        return x
    if x.dtype.is_floating_point:
        return x.mean(dims, keepdim=keep)
    return torch.div(_sum(x, dims, keep), prod(x.shape[d] for d in dims), rounding_mode="trunc")


def _prod(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    for d in reversed(dims):
        x = x.prod(d, keepdim=keep, dtype=x.dtype)
    return x


def _log_sum_exp(x: Tensor, dims: list[int], keep: bool) -> Tensor:
    return torch.logsumexp(x, dims, keep) if dims else x


def _extreme(name: str) -> Reduction:
    return lambda x, dims, keep: getattr(x, name)(dims, keepdim=keep) if dims else x


def _arg(name: str) -> Operator:
    def found(node: Node, x: Tensor) -> Tensor:
        d, keep = axis(node, x.dim(), 0), bool(node.get("keepdims", 1))
        if not node.get("select_last_index", 0):
            made: Tensor = getattr(torch, name)(x, d, keep)
            return made
        return x.shape[d] - 1 - getattr(torch, name)(x.flip(d), d, keep)

    return Operator(found)


def _softmax(function: Callable[[Tensor, int], Tensor]) -> Operator:
    """All dimensions from the axis on are one before opset 13."""

    def normalized(node: Node, x: Tensor) -> Tensor:
        if node.version >= 13:
            return function(x, axis(node, x.dim(), -1))
        d = axis(node, x.dim(), 1)
        if d == x.dim() - 1:
            return function(x, d)
        return function(x.reshape(prod(x.shape[:d]), prod(x.shape[d:])), 1).reshape(x.shape)

    return Operator(normalized)


def _hardmax(node: Node, x: Tensor) -> Tensor:
    d = axis(node, x.dim(), -1 if node.version >= 13 else 1)
    flat = x if node.version >= 13 else x.reshape(prod(x.shape[:d]), prod(x.shape[d:]))
    d = d if node.version >= 13 else 1
    places = torch.arange(flat.shape[d]).reshape([-1 if i == d else 1 for i in range(flat.dim())])
    return (torch.argmax(flat, d, True) == places).to(x.dtype).reshape(x.shape)


def _running(function: Callable[..., Tensor], start: float) -> Operator:
    def made(node: Node, x: Tensor, at: Value) -> Tensor:
        d = node.needed("axis", at)[0] % x.dim()
        back = node.get("reverse", 0)
        x = x.flip(d) if back else x
        y = function(x, d, dtype=x.dtype)
        if node.get("exclusive", 0):
            first = torch.full_like(x.narrow(d, 0, 1), start)
            y = torch.cat([first, y.narrow(d, 0, x.shape[d] - 1)], d)
        return y.flip(d) if back else y

    return Operator(made, known=(1,))


def _top_k(node: Node, x: Tensor, k: Value = None) -> Sequence[Any]:
    d = axis(node, x.dim(), -1)
    count = node.needed("k", k)[0]
    return tuple(torch.topk(x, count, d, bool(node.get("largest", 1)), bool(node.get("sorted", 1))))


OPERATORS = {
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "CumProd": _running(torch.cumprod, 1),
    "CumSum": _running(torch.cumsum, 0),
    "Hardmax": Operator(_hardmax),
    "LogSoftmax": _softmax(torch.log_softmax),
    "ReduceL1": _reduction(lambda x, dims, keep: _sum(x.abs(), dims, keep)),
    "ReduceL2": _reduction(lambda x, dims, keep: torch.sqrt(_sum(x * x, dims, keep))),
    "ReduceLogSum": _reduction(lambda x, dims, keep: torch.log(_sum(x, dims, keep))),
    "ReduceLogSumExp": _reduction(_log_sum_exp),
    "ReduceMax": _reduction(_extreme("amax")),
    "ReduceMean": _reduction(_mean),
    "ReduceMin": _reduction(_extreme("amin")),
    "ReduceProd": _reduction(_prod),
    "ReduceSum": _reduction(_sum),
    "ReduceSumSquare": _reduction(lambda x, dims, keep: _sum(x * x, dims, keep)),
    "Softmax": _softmax(torch.softmax),
    "TopK": Operator(_top_k, known=(1,)),
}
