"""Oracles for boxes and for what lies in them: PyTorch's pools and samples, ONNX's reference of suppression.

If QNN's documents leave something open, it follows the observed behavior of QNN CPU 2.47; docs/reference/kernels.md lists these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.onnx_nodes import node
from opdb.measure.conformance.executors.oracle_data_movement import stored_in


def kept(boxes: T, scores: T, iou: float, score: float, most: int) -> T:
    """ONNX's (batch, class, box) of boxes [N, n, 4] and scores [N, C, n]; a score equal to the threshold counts."""
    found = node(
        "NonMaxSuppression",
        boxes.float().numpy(),
        scores.float().numpy(),
        np.array([most]),
        np.array([iou], np.float32),
        np.nextafter(np.array([score], np.float32), np.float32(-np.inf)),
    )
    return torch.from_numpy(found).reshape(-1, 3)


def _nothing(config: OpConfig) -> list[T]:
    """The results for zero batches."""
    return [torch.zeros(t.shape, dtype=torch.float64) for t in config.outputs]


def non_max_suppression(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Every batch has the same number of rows; those after its last box are copies of that, or (batch, 0, 0) if there is none."""
    boxes, scores = inputs
    if not len(boxes):
        return _nothing(config)
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


def _best(classes: list[T], scores: T, most: int) -> list[tuple[int, int]]:
    """(class, box) of the best over all classes, best first; ``classes``: the boxes that each keeps."""
    every = [(c, int(b)) for c, found in enumerate(classes) for b in found]
    order = torch.sort(torch.tensor([scores[b, c] for c, b in every]), descending=True, stable=True).indices
    return [every[i] for i in order[:most].tolist()]


def _filled(rows: list[T], most: int, like: T) -> T:
    """The rows, padded with zeros up to ``most``."""
    made = torch.zeros((most, *like.shape[2:]), dtype=like.dtype)
    for i, row in enumerate(rows):
        made[i] = row
    return made


def multi_class_nms(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    boxes, scores, *features = inputs
    if params.get("soft_nms_sigma", 0.0) != 0.0:
        raise NoOracle("the documents do not say how scores fall")
    if any(
        f.ndim < 2 or f.shape[2:] != t.shape[2:] for f, t in zip(features, config.outputs[4:], strict=True)
    ):
        raise NoOracle("the documents do not say what belongs to a box")
    if not len(boxes):
        return _nothing(config)
    found = kept(
        boxes,
        scores.movedim(1, 2),
        params["iou_threshold"],
        params.get("score_threshold", 0.0),
        boxes.shape[1],
    )
    most, made = config.outputs[0].shape[1], []
    for n in range(len(boxes)):
        rows = found[found[:, 0] == n]
        best = _best([rows[rows[:, 1] == c, 2] for c in range(scores.shape[2])], scores[n], most)
        made.append([
            _filled([boxes[n, b] for _, b in best], most, boxes),
            _filled([scores[n, b, c] for c, b in best], most, scores[:, :, 0]),
            _filled([torch.tensor(c) for c, _ in best], most, torch.zeros((1, 1), dtype=torch.int64)),
            torch.tensor(len(best)),
            *(_filled([f[n, b] for _, b in best], most, f) for f in features),
        ])  # fmt: skip
    return [torch.stack(of_batches) for of_batches in zip(*made, strict=True)]


def combined_nms(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """TensorFlow's version, but a score equal to the threshold counts."""
    boxes, scores = inputs
    if not len(boxes):
        return _nothing(config)
    most, made = config.outputs[0].shape[1], []
    for n in range(len(boxes)):
        classes = []
        for c in range(scores.shape[2]):
            own = boxes[n, :, c if boxes.shape[2] > 1 else 0]
            classes.append(kept(
                own[None], scores[n, :, c][None, None], params["iou_threshold"],
                params.get("score_threshold", 0.0), params["max_boxes_per_class"],
            )[:, 2])  # fmt: skip
        best = _best(classes, scores[n], most)
        rows = [boxes[n, b, c if boxes.shape[2] > 1 else 0] for c, b in best]
        rows = [r.clamp(0, 1) if params.get("clip_boxes", False) else r for r in rows]
        made.append([
            _filled(rows, most, boxes[:, :, 0]),
            _filled([scores[n, b, c] for c, b in best], most, scores[:, :, 0]),
            _filled([torch.tensor(c) for c, _ in best], most, torch.zeros((1, 1), dtype=torch.int64)),
            torch.tensor(len(best)),
        ])  # fmt: skip
    return [torch.stack(of_batches) for of_batches in zip(*made, strict=True)]


def _shared(boxes: T) -> T:
    """The intersection over union of each pair of boxes [n, 4]; 0 without area."""
    low, high = boxes[:, None, :2].maximum(boxes[:, :2]), boxes[:, None, 2:].minimum(boxes[:, 2:])
    both, area = (high - low).clamp(min=0).prod(-1), (boxes[:, 2:] - boxes[:, :2]).prod(-1)
    return torch.nan_to_num(both / (area[:, None] + area - both), 0.0)


def _rescored(boxes: T, scores: T, params: Params) -> list[tuple[float, int]]:
    """(score, box) of one class as in Soft-NMS (Bodla et al., 2017), in the order of selection."""
    shared, method = _shared(boxes), params["nms_kernel_method"]
    over = shared >= params["iou_threshold"]
    falls = [~over, torch.where(over, 1 - shared, 1.0), torch.exp(-(shared**2) / params["sigma"])][method]
    there, made = scores > params.get("score_threshold", 0.0), []
    while there.any():
        best = int(torch.where(there, scores, -torch.inf).argmax())
        made.append((float(scores[best]), best))
        scores = scores * falls[best]
        there = there & (scores >= params["nms_score_threshold"])
        there[best] = False
    return made


def box_with_nms_limit(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Soft-NMS of each batch and class; a limit keeps the best over all classes of a batch, sorted by class."""
    boxes, scores, batch_idx, splits = (*inputs, None)[:4]
    places = boxes.reshape(*scores.shape, 4)
    sizes = torch.unique_consecutive(batch_idx, return_counts=True)[1] if splits is None else splits
    limit, first = params.get("pre_nms_limit", -1), 0
    rows: list[tuple[Any, ...]] = []
    found: list[int] = []
    for n in sizes.tolist():
        own = slice(first, first + n)
        every = [
            (score, c, box)
            for c in range(scores.shape[1])
            for score, box in _rescored(places[own, c], scores[own, c], params)
        ]
        if limit >= 0:
            every = sorted(sorted(every, key=lambda d: -d[0])[:limit], key=lambda d: d[1])
        rows += [(places[first + b, c], s, c, int(batch_idx[first]), b) for s, c, b in every]
        found.append(len(every))
        first += n
    if len(rows) > config.outputs[0].shape[0]:
        raise NoOracle("there are more boxes than the results have rows")
    corners = torch.stack([r[0] for r in rows]) if rows else torch.zeros((0, 4), dtype=torch.float64)
    left = torch.tensor([r[1] for r in rows], dtype=torch.float64)
    classes, batches, keeps = torch.tensor([r[2:] for r in rows], dtype=torch.int64).reshape(-1, 3).unbind(1)
    kept = torch.bincount(classes, minlength=scores.shape[1])
    made = [corners, left, classes, batches, torch.tensor(found), keeps, kept]
    return [
        F.pad(m, (0, 0) * (m.ndim - 1) + (0, t.shape[0] - len(m)))
        for m, t in zip(made, config.outputs, strict=False)
    ]


def axis_aligned_bbox_transform(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Moves centers and sizes by the shifts divided by the weights, as in Fast R-CNN, and clips to the image."""
    boxes, deltas, batch, image = inputs
    corners = boxes.reshape(-1, 1, 2, 2)
    size, centre = corners[:, :, 1] - corners[:, :, 0], corners.mean(2)
    shifts = deltas.reshape(len(boxes), -1, 2, 2) / torch.tensor(
        params.get("weights", [1.0] * 4), dtype=torch.float64
    ).reshape(2, 2)
    centre, size = centre + shifts[:, :, 0] * size, size * torch.exp(shifts[:, :, 1])
    made = torch.stack([centre - size / 2, centre + size / 2], 2)
    ends = image[batch.long()].flip(-1).reshape(-1, 1, 1, 2).double()
    made = torch.minimum(torch.clamp(made, min=0), ends).reshape(deltas.shape)
    return [made, torch.bincount(batch.long(), minlength=len(image))][: len(config.outputs)]


def distribute_fpn_proposals(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """floor(canonical level + log2(side / canonical side)), clamped to the levels."""
    rois = inputs[0]
    low, high = params.get("roi_min_level", 2), params.get("roi_max_level", 5)
    side = torch.sqrt((rois[:, -2] - rois[:, -4]) * (rois[:, -1] - rois[:, -3]))
    exact = params.get("roi_canonical_level", 4) + torch.log2(side / params.get("roi_canonical_scale", 224))
    levels = torch.clamp(torch.floor(exact), low, high)
    restore, made, first = torch.zeros(len(rois), dtype=torch.int64), [], 0
    for level, tensor in zip(range(low, high + 1), config.outputs[1:], strict=True):
        own = levels == level
        if int(own.sum()) > tensor.shape[0]:
            raise NoOracle("a level has more regions than its result has rows")
        restore[own] = first + torch.arange(int(own.sum()))
        made.append(F.pad(rois[own], (0, 0, 0, tensor.shape[0] - int(own.sum()))))
        first += tensor.shape[0]
    return [restore, *made]


def collect_rpn_proposals(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    rois, scores = (torch.cat([t for t in half if t is not None]) for half in (inputs[:5], inputs[5:]))
    order = torch.sort(scores, descending=True, stable=True).indices
    return [rois[order[: config.outputs[0].shape[0]]]]


def _samples(start: T, end: T, bins: int, samples: int, aligned: bool) -> tuple[T, int]:
    """Equally spaced positions, and their number per bin."""
    length = float(end - start) if aligned else max(float(end - start), 1.0)
    n = samples if samples > 0 else max(int(np.ceil(length / bins)), 0)
    places = (torch.arange(bins * n, dtype=torch.float64) + 0.5) * length / max(bins * n, 1)
    return float(start) - 0.5 * aligned + places, n


def roi_align(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """grid_sample at the positions, with zeros for those more than a pixel outside."""
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
    """adaptive_max_pool2d of each region; places outside the image count as minus infinity."""
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


#: Red, green and blue of (y, u - 128, v - 128) as QNN CPU 2.47 computes them, close to ITU-R BT.601's 1.402, 0.344, 0.714, 1.772.
RGB = torch.tensor([[1, 0, 359 / 256], [1, -88 / 256, -183 / 256], [1, 454 / 256, 0]], dtype=torch.float64)


def nv_to_rgb(first: str) -> Any:
    """NV12 if the first of a pair of colors is ``u``, NV21 if it is ``v``."""

    def oracle(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
        (made,) = config.outputs
        batch, height, width, _ = made.shape
        if height % 2 or width % 2:
            raise NoOracle("the documents do not say whose color the last row or column has")
        if made.dtype != config.inputs[0].dtype:
            raise NoOracle("the documents do not say how bytes become numbers of another type")
        stored = stored_in(inputs[0], config.inputs[0]).double()
        light, pairs = stored.split([height * width, height * width // 2], 1)
        colors = F.interpolate(
            pairs.reshape(batch, height // 2, width // 2, 2).movedim(-1, 1), scale_factor=2, mode="nearest"
        )
        if first == "v":
            colors = colors.flip(1)
        yuv = torch.cat([light.reshape(batch, 1, height, width), colors - 128], 1)
        rgb = torch.clamp(torch.einsum("cd,bdhw->bhwc", RGB, yuv) + 0.5, 0, 255)
        rgb = rgb.flip(-1) if params["output_order"] == 1 else rgb
        if made.quant is None:
            return [rgb]
        return [torch.from_numpy(data.real(torch.floor(rgb).numpy(), made))]

    return oracle
