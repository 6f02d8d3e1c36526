"""Boxes, regions and pictures in edge cases, against ONNX's reference, PyTorch and the definition of BT.601."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig
from opdb.measure.conformance.executors.onnx_nodes import node
from opdb.measure.conformance.executors.torch_oracle import compute
from opdb.runtime import native
from opdb.runtime.native import KernelError

pytestmark = pytest.mark.native
pytest.importorskip("onnx")


def configured(
    op: str, arrays: Sequence[np.ndarray], params: dict[str, Any], outputs: Sequence[tuple[Any, ...]]
) -> OpConfig:
    """A config of f32, i32 and u32 tensors; a parameter is its value, or (data type, value)."""
    shorts = {np.dtype("f4"): "f32", np.dtype("i4"): "i32", np.dtype("u4"): "u32"}
    made = []
    for name, (dtype, value) in params.items():
        shape = (len(value),) if isinstance(value, tuple) else None
        made.append(ParamConfig(name, dtype, value, shape))
    return OpConfig(
        op,
        tuple(TensorConfig("", shorts[a.dtype], a.shape) for a in arrays),
        tuple(made),
        tuple(TensorConfig("", dtype, tuple(shape)) for dtype, *shape in outputs),
    )


def suppression(boxes: Any, scores: Any, iou: float, score: float, most: int) -> list[list[int]]:
    """The rows and the number of boxes of each batch; checks that the oracle agrees."""
    b, s = np.array(boxes, np.float32), np.array(scores, np.float32)
    rows = s.shape[0] * s.shape[1] * min(most, s.shape[2])
    params = {
        "iou_threshold": ("f32", iou),
        "score_threshold": ("f32", score),
        "max_boxes_selected": ("u32", most),
    }
    config = configured("NonMaxSuppression", [b, s], params, [("i32", rows, 3), ("u32", len(b))])
    got = native.run(config, [b, s])
    for have, want in zip(got, compute(config, [b, s]), strict=True):
        assert np.array_equal(have, want)
    return [got[0].tolist(), got[1].tolist()]


BOXES = [[[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 1, 2], [5, 5, 6, 6], [5, 5, 6, 6], [8, 8, 8, 8]]]


def test_suppression_keeps_the_first_tie_and_overlaps_at_the_threshold() -> None:
    """Boxes 0 and 2 overlap by half; of the equal boxes 0 and 1 the first is kept.  Box 5 has no area."""
    scores = [[[0.5, 0.5, 0.75, 0.25, 0.125, 0.0]]]
    assert suppression(BOXES, scores, 0.5, 0.0, 6) == [[[0, 0, b] for b in (2, 0, 3, 5, 5, 5)], [4]]
    assert suppression(BOXES, scores, 0.49, 0.0, 2) == [[[0, 0, 2], [0, 0, 3]], [2]]
    assert suppression(BOXES, scores, 0.5, 0.25, 3) == [[[0, 0, 2], [0, 0, 0], [0, 0, 3]], [3]]


def test_a_batch_may_have_no_box_above_the_score() -> None:
    scores = [[[0.5, 0.1, 0.1, 0.1, 0.1, 0.1]], [[0.1] * 6], [[0.1, 0.1, 0.1, 0.1, 0.1, np.nan]]]
    rows = [[0, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 0], [2, 0, 0]]
    assert suppression(BOXES * 3, scores, 0.5, 0.25, 2) == [rows, [1, 0, 0]]


def test_corners_may_be_in_any_order() -> None:
    flipped = [[[1, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1], [0, 1, 1, 0], [-3, -3, -2, -2], [-2, -2, -3, -3]]]
    found = suppression(flipped, [[[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]]], 0.5, 0.0, 3)
    assert found == [[[0, 0, 0], [0, 0, 4], [0, 0, 4]], [2]]


def test_many_boxes_match_the_oracle() -> None:
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 10, (2, 300, 2))
    boxes = np.concatenate([corners, corners + rng.uniform(0, 4, (2, 300, 2))], -1)
    _, valid = suppression(boxes, rng.permuted(np.arange(1800)).reshape(2, 3, 300) / 1800, 0.4, 0.3, 300)
    assert all(100 < v < 600 for v in valid)


def aligned_regions(rois: Any, samples: int, aligned: bool) -> tuple[np.ndarray, np.ndarray]:
    """Our result and ONNX's, on a picture twice as large as the image."""
    rng = np.random.default_rng(7)
    image, rows = rng.standard_normal((2, 6, 7, 3), np.float32), np.array(rois, np.float32)
    batch = np.arange(len(rows), dtype=np.int32) % 2
    params = {"img_size_ratio": ("f32", (2.0, 2.0)), "num_samples_y": ("i32", samples),
              "num_samples_x": ("i32", samples), "aligned": ("bool8", aligned)}  # fmt: skip
    config = configured("RoiAlign", [image, rows, batch], params, [("f32", len(rows), 4, 2, 3)])
    (got,) = native.run(config, [image, rows, batch])
    (want,) = compute(config, [image, rows, batch])
    assert np.allclose(got, want, rtol=1e-5, atol=1e-6)
    onnx = node(
        "RoiAlign", image.transpose(0, 3, 1, 2), rows, batch.astype(np.int64), output_height=4, output_width=2,
        spatial_scale=0.5, sampling_ratio=max(samples, 0), coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip
    return got, onnx.transpose(0, 2, 3, 1)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("samples", [-1, 1, 3])
def test_regions_inside_at_the_edge_and_outside_match_onnx(samples: int, aligned: bool) -> None:
    rois = [
        [2, 3, 9, 11],
        [0, 0, 14, 12],
        [13, 11, 14, 12],
        [-4, -3, 30, 30],
        [-1.5, 11.5, 0.5, 13],
        [40, 40, 50, 50],
    ]
    got, onnx = aligned_regions(rois, samples, aligned)
    assert np.allclose(got, onnx, rtol=1e-4, atol=1e-5)
    assert not got[-1].any() and got[:4].any()


def test_an_empty_region_has_a_pixel_unless_aligned() -> None:
    got, onnx = aligned_regions([[4, 4, 4, 4], [5, 5, 2, 2]], -1, False)
    assert np.allclose(got, onnx, rtol=1e-4, atol=1e-5) and got.any()
    assert not aligned_regions([[4, 4, 4, 4]], -1, True)[0].any()


def test_a_huge_region_terminates() -> None:
    """Without a number of samples it has 10**16 of them, nearly all outside the image."""
    rng = np.random.default_rng(8)
    image = rng.uniform(1, 2, (1, 6, 7, 1)).astype(np.float32)
    rois = np.array([[-1e8, -1e8, 1e8, 1e8], [0, 0, np.inf, 3], [np.nan, 0, 4, 4]], np.float32)
    config = configured(
        "RoiAlign", [image, rois, np.zeros(3, np.int32)], {"img_size_ratio": ("f32", (1.0, 1.0))},
        [("f32", 3, 1, 1, 1)],
    )  # fmt: skip
    (got,) = native.run(config, [image, rois, np.zeros(3, np.int32)])
    assert np.all(got >= 0) and np.all(got < 1e-12)


@pytest.mark.parametrize("side", ["num_samples_y", "num_samples_x"])
def test_too_many_samples_per_bin_are_refused(side: str) -> None:
    """Their number determines the time per region."""
    arrays = [np.ones((1, 2, 2, 1), np.float32), np.ones((1, 4), np.float32), np.zeros(1, np.int32)]
    for samples, status in ((1024, ""), (1025, "unsupported"), (2**31 - 1, "unsupported")):
        params = {"img_size_ratio": ("f32", (1.0, 1.0)), side: ("i32", samples)}
        config = configured("RoiAlign", arrays, params, [("f32", 1, 1, 1, 1)])
        if not status:
            assert native.run(config, arrays)[0] == 1
            continue
        with pytest.raises(KernelError) as caught:
            native.run(config, arrays)
        assert caught.value.status == status


def test_roi_pooling_takes_the_largest_pixel_of_each_bin() -> None:
    """Rows 2 to 6 in bins of 2.5 overlap; a region outside the image has none."""
    image = np.broadcast_to(np.arange(8, dtype=np.float32)[:, None, None], (1, 8, 9, 1)).copy()
    rois = np.array(
        [[2, 3, 9, 11], [0, 0, 0, 0], [100, 100, 120, 120], [-8, -8, 2, 2], [5, 5, 2, 2]], np.float32
    )
    batch = np.zeros(5, np.int32)
    config = configured(
        "RoiPooling", [image, rois, batch], {"img_size_ratio": ("f32", (2.0, 2.0))}, [("f32", 5, 2, 1, 1)]
    )
    (got,) = native.run(config, [image, rois, batch])
    assert np.array_equal(got, compute(config, [image, rois, batch])[0])
    assert got[:, :, 0, 0].tolist() == [[4, 6], [0, 0], [0, 0], [0, 1], [3, 3]]


@pytest.mark.parametrize("op", ["RoiAlign", "RoiPooling"])
@pytest.mark.parametrize("batch", [-1, 2])
def test_an_invalid_batch_index_is_rejected(op: str, batch: int) -> None:
    arrays = [np.ones((2, 3, 3, 1), np.float32), np.zeros((1, 4), np.float32), np.array([batch], np.int32)]
    config = configured(op, arrays, {"img_size_ratio": ("f32", (1.0, 1.0))}, [("f32", 1, 1, 1, 1)])
    with pytest.raises(KernelError, match="outside"):
        native.run(config, arrays)


@pytest.mark.parametrize(("op", "blue"), [("Nv12ToRgb", 0), ("Nv21ToRgb", 1)])
def test_color_conversion_follows_bt_601(op: str, blue: int) -> None:
    """There is one pair of color values per 2 by 2 square; with the half, at most 0.7 from the standard's numbers."""
    rng = np.random.default_rng(1)
    planes = rng.integers(16, 236, (2, 4 * 6)), rng.integers(100, 156, (2, 2, 3, 2))
    x = np.concatenate([planes[0], planes[1].reshape(2, -1)], 1).astype(np.float32)
    config = configured(op, [x], {"output_order": ("i32", 0)}, [("f32", 2, 4, 6, 3)])
    (got,) = native.run(config, [x])
    light = planes[0].reshape(2, 4, 6)
    u, v = (planes[1][..., c].repeat(2, 1).repeat(2, 2) - 128 for c in (blue, 1 - blue))
    wanted = np.stack([light + 1.402 * v, light - 0.344136 * u - 0.714136 * v, light + 1.772 * u], -1)
    assert np.abs(got - np.clip(wanted, 0, 255)).max() <= 0.7
    (reverse,) = native.run(configured(op, [x], {"output_order": ("i32", 1)}, [("f32", 2, 4, 6, 3)]), [x])
    assert np.array_equal(reverse, got[..., ::-1])


def test_an_odd_height_is_unsupported() -> None:
    x = np.zeros((1, 18), np.float32)
    with pytest.raises(KernelError, match="unsupported"):
        native.run(configured("Nv12ToRgb", [x], {"output_order": ("i32", 0)}, [("f32", 1, 3, 4, 3)]), [x])
