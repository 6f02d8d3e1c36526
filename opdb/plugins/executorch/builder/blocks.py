"""Blockwise 4-bit weights: which ones ExecuTorch's quantizer gets to quantize, and the scales that QNN can store.

QNN's BLOCKWISE_EXPANSION has a scale per slice times a 4-bit integer per block; ExecuTorch rounds
torchao's scales to that form when it builds the graph (``make_qnn_per_block_config``).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as PyQnn
import torch
from executorch.backends.qualcomm.utils import constants as key

#: Config key of a weight: the scales of its blocks, by which its elements are still to be multiplied.
SPREAD = "opdb_spread"
#: Elements of a block along a weight's input channels, largest first; each divides the channels.
SIZES = (64, 32, 16)
STEPS = 16  # the largest integer of a block


def sizes(module: Any) -> dict[str, tuple[int, ...]]:
    """Node -> block size along each dimension of its weight, for 1x1 convolutions.

    Other weights keep a scale per channel (``errata``).
    """
    out = {}
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.conv2d.default and node.args[1].op == "get_attr":
            shape = _attribute(module, node.args[1]).shape
            size = next((b for b in SIZES if shape[1] % b == 0), None)
            if size is not None and all(d == 1 for d in shape[2:]):
                out[node.name] = (1, size, *(1,) * (len(shape) - 2))
    return out


def errata(target: str, shape: Sequence[int]) -> tuple[str, ...]:
    """The errata of HTP for an ATen operator with a blockwise weight of ``shape``."""
    if target == "aten.linear.default":
        return ("HTP-0357",)
    return ("HTP-0006",) if math.prod(shape[2:]) > 1 else ()


def stepped(scales: torch.Tensor, axis: int, channels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale of each slice [channels], and the integers of its blocks [channels, blocks], from 1 to 16."""
    rows = scales.movedim(axis, 0).reshape(channels, -1)
    largest = rows.amax(1) / STEPS
    return largest, (rows / largest[:, None]).round().clamp(1, STEPS)


def by_channel(config: dict[str, Any], scales: torch.Tensor) -> tuple[Any, dict[str, Any]]:
    """Turns QNN's encoding and config of a blockwise weight into 8 bits with a scale per channel; see ``spread``."""
    encoding, per_channel = in_8_bits(config, config[key.QCOM_BLOCK_SCALE_OFFSET])
    return encoding, per_channel | {SPREAD: scales}


def in_8_bits(config: dict[str, Any], scales: Any) -> tuple[Any, dict[str, Any]]:
    """QNN's encoding and config for 8 bits with ``scales`` along the axis of ``config``."""
    return PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_AXIS_SCALE_OFFSET, {
        key.QCOM_DTYPE: torch.int8,
        key.QCOM_QUANT_MIN: -128,
        key.QCOM_QUANT_MAX: 127,
        key.QCOM_AXIS: config[key.QCOM_AXIS],
        key.QCOM_SCALE_OFFSET: scales,
    }


def narrow_volume(encoding: Any, value: Any) -> bool:
    """True if a weight of fewer than 8 bits is the filter of a Conv3d, which is erratum HTP-0010."""
    narrow = PyQnn.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_BW_AXIS_SCALE_OFFSET
    return bool(encoding == narrow) and value.dim() == 5


def spread(weight: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Multiplies each element of a 4-bit weight by the integer of its block; the result is int8, -128 to 112."""
    sizes = [n // blocks for n, blocks in zip(weight.shape, scales.shape, strict=True)]
    axis = channel_axis(sizes)
    turned = scales.movedim(axis, 0)
    steps = stepped(scales, axis, weight.shape[axis])[1].reshape(turned.shape).movedim(0, axis)
    for i, size in enumerate(sizes):
        steps = steps.repeat_interleave(size, i)
    return (weight * steps).to(torch.int8)


def round_scales(module: Any) -> None:
    """Rounds the scales of ``module``'s quantized weights to ones that QNN can store, so that it computes what QNN will."""
    for node in module.graph.nodes:
        if str(node.target).startswith("torchao.dequantize_affine"):
            block_size, scales = node.args[1], _attribute(module, node.args[2])
            axis = channel_axis(block_size)
            channels = _attribute(module, node.args[0]).shape[axis]
            largest, steps = stepped(scales, axis, channels)
            turned = scales.movedim(axis, 0)
            scales.copy_((largest[:, None] * steps).reshape(turned.shape).movedim(0, axis))


def channel_axis(block_size: Any) -> int:
    """The dimension with block size 1: each of its elements has its own scale."""
    return next(i for i, size in enumerate(block_size) if size == 1)


def _attribute(module: Any, node: Any) -> torch.Tensor:
    found: torch.Tensor = operator.attrgetter(str(node.target))(module)
    return found.data
