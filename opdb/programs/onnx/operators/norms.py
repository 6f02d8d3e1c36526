"""Normalizations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Node, Operator, Unreadable, axis


def _batch(node: Node, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    if node.get("training_mode", 0) or node.outputs > 1:
        raise Unreadable("it computes the statistics of a training; export the model for inference")
    return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, node.get("epsilon", 1e-5))


def _instance(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.instance_norm(x, weight=scale, bias=bias, eps=node.get("epsilon", 1e-5))


def _affine(y: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    return y * scale if bias is None else y * scale + bias


def _layer(node: Node, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Any:
    """Scale and bias may broadcast to the normalized shape; PyTorch's must have it."""
    d, eps = axis(node, x.dim(), -1), node.get("epsilon", 1e-5)
    over = list(x.shape[d:])
    same = list(scale.shape) == over and (bias is None or list(bias.shape) == over)
    y = (
        functional.layer_norm(x, over, scale, bias, eps)
        if same
        else _affine(functional.layer_norm(x, over, eps=eps), scale, bias)
    )
    if node.outputs == 1:
        return y
    dims = list(range(d, x.dim()))
    mean = x.mean(dims, keepdim=True)
    return y, mean, torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + eps)


def _group(node: Node, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """Scale and bias are per group before opset 21, per channel since then."""
    groups = node["num_groups"]
    if node.version < 21:
        scale, bias = (t.repeat_interleave(x.shape[1] // groups) for t in (scale, bias))
    return functional.group_norm(x, groups, scale, bias, node.get("epsilon", 1e-5))


def _rms(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    d, eps = axis(node, x.dim(), -1), node.get("epsilon", 1e-5)
    over = list(x.shape[d:])
    if list(scale.shape) == over:
        return functional.rms_norm(x, over, scale, eps)
    return functional.rms_norm(x, over, eps=eps) * scale


def _lp(node: Node, x: Tensor) -> Tensor:
    return functional.normalize(x, float(node.get("p", 2)), axis(node, x.dim(), -1))


def _lrn(node: Node, x: Tensor) -> Tensor:
    size = node["size"]
    if size % 2 == 0:
        raise Unreadable("PyTorch's local_response_norm places windows of even size differently")
    return functional.local_response_norm(
        x, size, node.get("alpha", 1e-4), node.get("beta", 0.75), node.get("bias", 1.0)
    )


OPERATORS = {
    "BatchNormalization": Operator(_batch),
    "GroupNormalization": Operator(_group),
    "InstanceNormalization": Operator(_instance),
    "LRN": Operator(_lrn),
    "LayerNormalization": Operator(_layer),
    "LpNormalization": Operator(_lp),
    "RMSNormalization": Operator(_rms),
}
