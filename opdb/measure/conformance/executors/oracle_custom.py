"""PyTorch's answers for the ops of the package OpdbCustom, the examples of docs/guides/op-packages.md."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Inputs, Params, T


def dequantize_add(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    return [torch.add(inputs[1], inputs[0].double(), alpha=params["scale"])]


def fake_quantize(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    low, high, steps = params["low"], params["high"], params.get("levels", 256) - 1
    return [
        low + torch.round((inputs[0].clamp(low, high) - low) * steps / (high - low)) * (high - low) / steps
    ]


def band_energy(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    edges = params["edges"]
    bands = [inputs[0][..., a:b] for a, b in pairwise(edges)]
    weighted = [w * band.sum(-1) for w, band in zip(params["weights"], bands, strict=True)]
    return [torch.stack(weighted, -1), torch.stack([band.amax(-1) for band in bands], -1)]


def sharpen(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    x = inputs[0].permute(0, 3, 1, 2)
    line = torch.tensor([1, 2, 1], dtype=x.dtype) / 4
    window = torch.outer(line, line).expand(x.shape[1], 1, 3, 3)
    middle = x[:, :, 1:-1, 1:-1]
    y = middle + params.get("strength", 1.0) * (middle - F.conv2d(x, window, groups=x.shape[1]))
    return [y.permute(0, 2, 3, 1)]
