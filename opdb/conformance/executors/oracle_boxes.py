"""What becomes of boxes and of what lies in them: PyTorch's pools and samples, ONNX's reference of suppression.

Where QNN's documents leave something open, it is what QNN CPU 2.47 was seen to do; docs/kernels.md says what.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.conformance import data
from opdb.conformance.executors import onnx_reference
from opdb.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.conformance.executors.oracle_moves import stored_in
from opdb.op_config import OpConfig


def kept(boxes: T, scores: T, iou: float, score: float, most: int) -> T:
    """ONNX's (batch, class, box) of boxes [N, n, 4] and scores [N, C, n]; a score that is the threshold counts."""
    given: dict[str, Any] = {
        "boxes": boxes.float().numpy(),
        "scores": scores.float().numpy(),
        "most": np.array([most]),
        "iou": np.array([iou], np.float32),
        "score": np.nextafter(np.array([score], np.float32), np.float32(-np.inf)),
    }
    return torch.from_numpy(onnx_reference.answer("NonMaxSuppression", tuple(given), given, 11)).reshape(
        -1, 3
    )


def non_max_suppression(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Each batch has as many rows; those after its last box are copies of that, or (batch, 0, 0) without one."""
    boxes, scores = inputs
    found = kept(
        boxes, scores, params["iou_threshold"], params.get("score_threshold", 0.0), params.get("max_boxes_selected", 0)
    )  # fmt: skip
    rows, made = config.outputs[0].shape[0] // len(boxes), []
    for batch in range(len(boxes)):
        of_batch = found[found[:, 0] == batch]
        last = torch.cat([torch.tensor([[batch, 0, 0]]), of_batch])[-1:]
        made.append(torch.cat([of_batch, last.expand(rows - len(of_batch), 3)]))
    valid = torch.bincount(found[:, 0], minlength=len(boxes))
    return [torch.cat(made), valid][: len(config.outputs)]


def _samples(start: T, end: T, bins: int, samples: int, aligned: bool) -> tuple[T, int]:
    """Places at equal distances, and how many there are in a bin."""
    length = float(end - start) if aligned else max(float(end - start), 1.0)
    n = samples if samples > 0 else max(int(np.ceil(length / bins)), 0)
    places = (torch.arange(bins * n, dtype=torch.float64) + 0.5) * length / max(bins * n, 1)
    return float(start) - 0.5 * aligned + places, n


def roi_align(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """grid_sample at the places, without those that lie more than a pixel outside."""
    image, rois, batch = inputs
    _, height, width, channels = config.outputs[0].shape
    down, along = params["img_size_ratio"]
    aligned = bool(params.get("aligned", False))
    size = torch.tensor([image.shape[2], image.shape[1]], dtype=torch.float64)
    made = []
    for (x1, y1, x2, y2), n in zip(rois, batch.long(), strict=True):
        rows, i = _samples(y1 / down, y2 / down, height, params.get("num_samples_y", -1), aligned)
        columns, j = _samples(x1 / along, x2 / along, width, params.get("num_samples_x", -1), aligned)
        if not i * j:
            made.append(torch.zeros((height, width, channels), dtype=image.dtype))
            continue
        places = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1)
        found = F.grid_sample(
            image[n].movedim(-1, 0)[None], ((2 * places + 1) / size - 1)[None], padding_mode="border", align_corners=False
        )[0]  # fmt: skip
        found = found * ((places >= -1) & (places <= size)).all(-1)
        made.append(found.reshape(channels, height, i, width, j).mean((2, 4)).movedim(0, -1))
    return [torch.stack(made)]


def roi_pooling(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """adaptive_max_pool2d of each region, which is infinitely low beside the image."""
    image, rois, batch = inputs
    _, height, width, _ = config.outputs[0].shape
    down, along = params["img_size_ratio"]
    made = []
    for roi, n in zip(rois, batch.long(), strict=True):
        exact = roi / torch.tensor([along, down, along, down], dtype=torch.float64)
        left, top, right, bottom = (torch.sign(exact) * torch.floor(torch.abs(exact) + 0.5)).int().tolist()
        right, bottom = max(left, right) + 1, max(top, bottom) + 1
        before = max(-left, 0), max(-top, 0)
        after = max(right - image.shape[2], 0), max(bottom - image.shape[1], 0)
        wide = F.pad(image[n].movedim(-1, 0), (before[0], after[0], before[1], after[1]), value=float("-inf"))
        cut = wide[:, before[1] + top : before[1] + bottom, before[0] + left : before[0] + right]
        found = F.adaptive_max_pool2d(cut, (height, width)).movedim(0, -1)
        made.append(torch.where(torch.isinf(found), 0.0, found))
    return [torch.stack(made)]


#: Red, green and blue of (y, u - 128, v - 128): what QNN CPU 2.47 gives, near to ITU-R BT.601's 1.402, 0.344, 0.714, 1.772.
RGB = torch.tensor([[1, 0, 359 / 256], [1, -88 / 256, -183 / 256], [1, 454 / 256, 0]], dtype=torch.float64)


def nv_to_rgb(first: str) -> Any:
    """NV12 where the first of a pair of colours is ``u``, NV21 where it is ``v``."""

    def oracle(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
        (made,) = config.outputs
        batch, height, width, _ = made.shape
        if height % 2 or width % 2:
            raise NoOracle("the documents do not say whose colour the last row or column has")
        if made.dtype != config.inputs[0].dtype:
            raise NoOracle("the documents do not say how bytes become numbers of another type")
        stored = stored_in(inputs[0], config.inputs[0]).double()
        light, pairs = stored.split([height * width, height * width // 2], 1)
        colours = F.interpolate(
            pairs.reshape(batch, height // 2, width // 2, 2).movedim(-1, 1), scale_factor=2, mode="nearest"
        )
        if first == "v":
            colours = colours.flip(1)
        yuv = torch.cat([light.reshape(batch, 1, height, width), colours - 128], 1)
        rgb = torch.clamp(torch.einsum("cd,bdhw->bhwc", RGB, yuv) + 0.5, 0, 255)
        rgb = rgb.flip(-1) if params["output_order"] == 1 else rgb
        if made.quant is None:
            return [rgb]
        return [torch.from_numpy(data.real(torch.floor(rgb).numpy(), made))]

    return oracle
