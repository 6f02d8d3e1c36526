"""PyTorch's answers for ops over axes and windows: reductions, norms, pools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.meaning import optional
from opdb.measure.conformance.executors.oracle_data_movement import same_type
from opdb.measure.conformance.executors.oracle_elements import held

Oracle = Callable[[OpConfig, Inputs, Params], list[T]]


# -- over axes


def reduction(function: Callable[[T, list[int]], T]) -> Oracle:
    """A reduction over the parameter ``axes``."""

    def oracle(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
        if not params["axes"]:
            raise NoOracle("the documents do not say what a reduction over no axis is")
        y = function(inputs[0], list(params["axes"]))
        return [held(y, config.outputs[0].dtype).reshape(config.outputs[0].shape)]

    return oracle


def product(x: T, axes: list[int]) -> T:
    for axis in axes:
        x = torch.prod(x, dim=axis, keepdim=True)
    return x


def of_real(oracle: Oracle) -> Oracle:
    """Restricts an oracle to real numbers."""

    def checked(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
        if not inputs[0].is_floating_point():
            raise NoOracle(f"the documents do not say how {config.op} rounds whole numbers")
        return oracle(config, inputs, params)

    return checked


def arg(function: Callable[..., Any]) -> Oracle:
    def oracle(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
        found = function(inputs[0].numpy(), axis=params["axis"])
        return [torch.from_numpy(np.asarray(found)).reshape(config.outputs[0].shape)]

    return oracle


def cumulative_sum(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    same_type(config)
    x, axis = inputs[0], params["axis"]
    turned = torch.flip(x, [axis]) if params.get("reverse", False) else x
    y = torch.cumsum(turned, axis)
    y = held(y - turned if params.get("exclusive", False) else y, config.outputs[0].dtype)
    return [torch.flip(y, [axis]) if params.get("reverse", False) else y]


def top_k(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    rows = torch.sort(inputs[0], dim=-1).values
    if bool((rows[..., 1:] == rows[..., :-1]).any()):
        raise NoOracle("the documents do not say which of equal numbers is first")
    values, indices = torch.topk(inputs[0], params["k"], largest=params.get("largest", True))
    return [values, indices]


def moments(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    axes, shape = list(params["axes"]), config.outputs[0].shape
    if not axes:
        raise NoOracle("the documents do not say what the moments over no axis are")
    variance, mean = torch.var_mean(inputs[0], dim=axes, correction=0)
    return [mean.reshape(shape), variance.reshape(shape)]


def softmax(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x = inputs[0]
    return [torch.softmax(x * params.get("beta", 1.0), params.get("axis", x.ndim - 1))]


def log_softmax(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    return [torch.log_softmax(inputs[0] * params.get("beta", 1.0), params["axis"])]


# -- norms


def layer_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Moves the normalized axes to the end, in the order of the parameter, and back."""
    x, axes = inputs[0], params["axes"]
    order = [d for d in range(x.ndim) if d not in axes] + list(axes)
    moved = x.permute(order)
    shape = [x.shape[a] for a in axes]
    y = F.layer_norm(moved, shape, optional(inputs, 1), optional(inputs, 2), params.get("epsilon", 0.001))
    return [y.permute([order.index(d) for d in range(x.ndim)])]


def rms_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Adds beta, which PyTorch's rms_norm lacks, and expands the weight to the normalized shape."""
    x, axes = inputs[0], list(params["axes"])
    if not axes:
        raise NoOracle("the documents do not say what a norm over no axis is")
    order = [d for d in range(x.ndim) if d not in axes] + axes
    shape = [x.shape[a] for a in axes]
    gamma, beta = optional(inputs, 1), optional(inputs, 2)
    y = F.rms_norm(
        x.permute(order), shape, None if gamma is None else gamma.expand(shape), params.get("epsilon", 1e-6)
    )
    return [(y if beta is None else y + beta.expand(shape)).permute([order.index(d) for d in range(x.ndim)])]


def group_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Uses layer_norm on each group, because PyTorch's group_norm refuses groups of one number."""
    x = inputs[0].movedim(-1, 1)
    groups = x.reshape(x.shape[0], params["group"], -1)
    y = F.layer_norm(groups, groups.shape[2:], eps=params["epsilon"]).reshape(x.shape).movedim(1, -1)
    y = y if optional(inputs, 1) is None else y * inputs[1]
    return [y if optional(inputs, 2) is None else y + inputs[2]]


def instance_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x, channels, region = inputs[0], inputs[0].shape[-1], params.get("region", 0)
    epsilon, root_mean_square = params.get("epsilon", 1e-12), params.get("mode", 0) == 1
    if root_mean_square != (region != 0):
        raise NoOracle("the documents do not describe this region with this mode")
    gamma = inputs[1].expand(channels)
    beta = None if optional(inputs, 2) is None else inputs[2].expand(channels)
    if root_mean_square:
        axes = [x.ndim - 1] if region == 1 else list(range(1, x.ndim))
        y = x * torch.rsqrt(torch.mean(torch.square(x), axes, keepdim=True) + epsilon) * gamma
        return [y if beta is None else y + beta]
    if not params.get("normalize_variance", True):
        raise NoOracle("no document says what is not normalized then")
    return [F.instance_norm(x.movedim(-1, 1), weight=gamma, bias=beta, eps=epsilon).movedim(1, -1)]


def batchnorm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    y = torch.mul(inputs[0], inputs[1])
    return [y if optional(inputs, 2) is None else y + inputs[2]]


def l2_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x, epsilon = inputs[0], params.get("epsilon", 1e-12)
    axes = list(params["axes"]) if params.get("axes") is not None else [params.get("axis", 0)]
    if not axes:
        raise NoOracle("the documents do not say what a norm over no axis is")
    squares = torch.linalg.vector_norm(x, dim=axes, keepdim=True) ** 2
    return [x / torch.sqrt(torch.clamp(squares, min=epsilon))]


# -- pools


def _windows(config: OpConfig, x: T, params: Params, filling: float) -> T:
    """[N, C, padded ...], so that PyTorch's pools without padding have the op's windows."""
    dims, out = x.ndim - 2, config.outputs[0].shape
    pads: list[int] = []
    for d in reversed(range(dims)):
        before, after = params["pad_amount"][d]
        reach = (out[1 + d] - 1) * params["stride"][d] + params["filter_size"][d]
        pads += [before, max(reach - x.shape[1 + d] - before, after)]
    return F.pad(x.movedim(-1, 1), pads, value=filling)


def pool_avg(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Sums divided by counts: places beyond the padded image never count, padding only if requested."""
    x = inputs[0]
    dims = x.ndim - 2
    sums = F.avg_pool2d if dims == 2 else F.avg_pool3d
    inside = torch.ones_like(x)
    if params.get("count_pad_for_edges", False):
        pads = [p for d in reversed(range(dims)) for p in params["pad_amount"][d]]
        padded = F.pad(inside.movedim(-1, 1), pads, value=1.0)
        reach = _windows(config, x, params, 0.0).shape[2:]
        more = [r for d in reversed(range(dims)) for r in (0, reach[d] - padded.shape[2 + d])]
        counted = F.pad(padded, more)
    else:
        counted = _windows(config, inside, params, 0.0)
    size, stride = params["filter_size"], params["stride"]
    total = sums(_windows(config, x, params, 0.0), size, stride, divisor_override=1)
    count = sums(counted, size, stride, divisor_override=1)
    if bool((count == 0).any()):
        raise NoOracle("the documents do not say what the mean of a window beside the image is")
    return [(total / count).movedim(1, -1)]


def pool_max(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x = _windows(config, inputs[0], params, float("-inf"))
    y = (F.max_pool2d if x.ndim == 4 else F.max_pool3d)(x, params["filter_size"], params["stride"])
    if bool(torch.isneginf(y).any()):
        raise NoOracle("the documents do not say what the maximum of a window beside the image is")
    return [y.movedim(1, -1)]


def l2_pool(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """The root of the mean of squares (NNAPI's L2_POOL_2D, and QNN CPU 2.47); padding does not count."""
    (squares,) = pool_avg(config, [torch.square(inputs[0])], dict(params) | {"count_pad_for_edges": False})
    return [torch.sqrt(squares)]
