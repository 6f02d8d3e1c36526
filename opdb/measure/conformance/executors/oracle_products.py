"""PyTorch's answers for matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.meaning import optional


def _bias(config: OpConfig, inputs: Inputs) -> Any:
    """The bias or None.  Beside weights with scales along an axis, HTP's document gives it the scale 0."""
    weight = config.inputs[1].quant
    if optional(inputs, 2) is not None and weight is not None and weight.axis is not None:
        raise NoOracle("the documents do not say what a bias means beside weights with scales along an axis")
    return optional(inputs, 2)


def fully_connected(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x, weight = inputs[0], inputs[1]
    y = F.linear(x.reshape(-1, weight.shape[1]), weight, _bias(config, inputs))
    return [y.reshape(config.outputs[0].shape)]


def mat_mul(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    a = inputs[0].mT if params.get("transpose_in0", False) else inputs[0]
    b = inputs[1].mT if params.get("transpose_in1", False) else inputs[1]
    y, bias = torch.matmul(a, b), _bias(config, inputs)
    return [y if bias is None else y + bias]


def _list(value: Any, dims: int) -> list[int]:
    """Expands a parameter that is a single number to a list of ``dims``."""
    return [value] * dims if isinstance(value, int) else list(value)


def _pads(params: Params, dims: int) -> list[list[int]]:
    given = params["pad_amount"]
    return [given] if dims == 1 else given


def conv(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Converts channels last and filters [taps, C / group, K] to PyTorch's layout; depthwise ones have C groups."""
    if 0 in inputs[1].shape:
        raise NoOracle("PyTorch has no convolution by a filter without elements")
    dims = inputs[0].ndim - 2
    pads = [p for row in reversed(_pads(params, dims)) for p in row]
    channels = inputs[0].shape[-1]
    groups = channels if config.op.startswith("DepthWise") else params.get("group", 1)
    y = (F.conv1d, F.conv2d, F.conv3d)[dims - 1](
        F.pad(inputs[0].movedim(-1, 1), pads),
        inputs[1].movedim((-1, -2), (0, 1)),
        _bias(config, inputs),
        stride=_list(params["stride"], dims),
        dilation=_list(params.get("dilation", 1), dims),
        groups=groups,
    )
    return [y.movedim(1, -1)]


def transpose_conv(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Computes everything, then crops, because PyTorch's padding is the same at both ends."""
    dims, out = inputs[0].ndim - 2, config.outputs[0].shape
    bias = _bias(config, inputs)
    if bias is not None and bias.shape[0] != out[-1]:
        raise NoOracle("the documents do not say what a bias of another size means")
    y = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[dims - 1](
        inputs[0].movedim(-1, 1),
        inputs[1].movedim((-2, -1), (0, 1)),
        stride=_list(params["stride"], dims),
        dilation=_list(params.get("dilation", 1), dims),
        groups=params.get("group", 1),
    )
    added = _list(params.get("output_padding", 0), dims)
    y = F.pad(y, [p for a in reversed(added) for p in (0, a)])
    for d, (before, _) in enumerate(_pads(params, dims)):
        y = y.narrow(2 + d, before, out[1 + d])
    y = y.movedim(1, -1)
    return [y if bias is None else y + bias]
