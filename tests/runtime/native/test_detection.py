"""The best boxes of several classes and levels: equal scores, no results, outputs smaller or larger than needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_boxes import BOXES, configured

from opdb.measure.conformance.executors.torch_oracle import compute
from opdb.runtime import native
from opdb.runtime.native import KernelError

pytestmark = pytest.mark.native
pytest.importorskip("onnx")


def judged(
    op: str, arrays: list[np.ndarray], params: dict[str, Any], outputs: list[tuple[Any, ...]]
) -> list[Any]:
    """The kernel's results; checks that the oracle's are the same."""
    config = configured(op, arrays, params, outputs)
    got = native.run(config, arrays)
    for have, want in zip(got, compute(config, arrays), strict=True):
        assert np.allclose(have, want, rtol=1e-6, atol=1e-6)
    return [a.tolist() for a in got]


def of_classes(scores: Any, most: int, iou: float = 0.5, score: float = 0.0) -> list[Any]:
    """MultiClassNms of BOXES in each batch, with two numbers and one integer as the features of a box."""
    s = np.array(scores, np.float32)
    batches = len(s)
    numbers = np.arange(batches * 12, dtype=np.float32).reshape(batches, 6, 2)
    integers = 100 + np.arange(batches * 6, dtype=np.int32).reshape(batches, 6)
    arrays = [np.repeat(np.array(BOXES, np.float32), batches, 0), s, numbers, integers]
    params = {"iou_threshold": ("f32", iou), "score_threshold": ("f32", score)}
    outputs = [("f32", batches, most, 4), ("f32", batches, most), ("i32", batches, most), ("u32", batches),
               ("f32", batches, most, 2), ("i32", batches, most)]  # fmt: skip
    return judged("MultiClassNms", arrays, params, outputs)


SCORES = [[0.9, 0.125], [0.8, 0.25], [0.7, 0.7], [0.3, 0.6], [0.2, 0.5], [0.1, 0.4]]


def test_classes_are_suppressed_independently() -> None:
    """Box 2 has the same score in both classes; the first class comes first."""
    boxes, scores, classes, valid, numbers, integers = of_classes([SCORES], 10)
    assert classes == [[0, 0, 1, 1, 1, 0, 1, 0, 0, 0]] and valid == [8]
    assert integers == [[100, 102, 102, 103, 105, 103, 101, 105, 0, 0]]
    assert numbers[0][1] == [4, 5] and boxes[0][9] == [0, 0, 0, 0]
    assert np.allclose(scores, [[0.9, 0.7, 0.7, 0.6, 0.4, 0.3, 0.25, 0.1, 0, 0]])


def test_the_output_may_be_too_small_and_a_batch_empty() -> None:
    found = of_classes([SCORES, [[0.1, 0.1]] * 6, SCORES[::-1]], 2, score=0.25)
    assert found[3] == [2, 0, 2] and found[2] == [[0, 0]] * 3
    assert found[5] == [[100, 102], [0, 0], [117, 116]]


def test_zero_batches_and_zero_boxes_are_supported() -> None:
    boxes, scores = np.zeros((0, 6, 4), np.float32), np.zeros((0, 6, 2), np.float32)
    outputs = [("f32", 0, 3, 4), ("f32", 0, 3), ("i32", 0, 3), ("u32", 0)]
    assert judged("MultiClassNms", [boxes, scores], {"iou_threshold": ("f32", 0.5)}, outputs) == [[]] * 4
    boxes, scores = np.zeros((2, 0, 4), np.float32), np.zeros((2, 0, 2), np.float32)
    outputs = [("f32", 2, 1, 4), ("f32", 2, 1), ("i32", 2, 1), ("u32", 2)]
    found = judged("MultiClassNms", [boxes, scores], {"iou_threshold": ("f32", 0.5)}, outputs)
    assert found == [[[[0, 0, 0, 0]]] * 2, [[0], [0]], [[0], [0]], [0, 0]]


def test_soft_nms_is_unsupported() -> None:
    arrays = [np.array(BOXES, np.float32), np.array([SCORES], np.float32)]
    params = {"iou_threshold": ("f32", 0.5), "soft_nms_sigma": ("f32", 0.5)}
    outputs = [("f32", 1, 2, 4), ("f32", 1, 2), ("i32", 1, 2), ("u32", 1)]
    with pytest.raises(KernelError, match="unsupported"):
        native.run(configured("MultiClassNms", arrays, params, outputs), arrays)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize(("per_class", "most"), [(6, 12), (1, 12), (6, 3), (0, 3)])
def test_each_class_may_have_its_own_boxes(per_class: int, most: int, clip: bool) -> None:
    """Each class has its own boxes, in two batches; the best of all classes come first."""
    boxes = np.array(BOXES, np.float32)[:, :, None] + np.array([0, 0.25], np.float32).reshape(1, 1, 2, 1)
    arrays = [np.concatenate([boxes, boxes / 8]), np.array([SCORES, SCORES[::-1]], np.float32)]
    params = {"max_boxes_per_class": ("u32", per_class), "max_total_boxes": ("u32", most),
              "iou_threshold": ("f32", 0.5), "clip_boxes": ("bool8", clip)}  # fmt: skip
    outputs = [("f32", 2, most, 4), ("f32", 2, most), ("u32", 2, most), ("u32", 2)]
    made, scores, _, valid = judged("CombinedNms", arrays, params, outputs)
    assert all(row == sorted(row, reverse=True) for row in scores)
    assert valid[0] == min(most, 2 * min(per_class, 4))
    assert not clip or np.max(made) <= 1


def levels_of(rois: Any, rows: int, low: int = 2, **params: Any) -> list[Any]:
    arrays = [np.array(rois, np.float32)]
    given = {n: ("u32", v) for n, v in (params | {"roi_min_level": low}).items()}
    outputs = [("i32", len(rois)), *[("f32", rows, len(rois[0]))] * (6 - low)]
    return judged("DistributeFpnProposals", arrays, given, outputs)


def test_regions_are_assigned_levels_by_size() -> None:
    """A side of 112 is level 3, 224 level 4, 448 level 5; the batch number is passed along."""
    sides = (50, 300, 500, 111.5, 112, 223, 224, 448, 447)
    restore, *levels = levels_of([[i % 2, 1, 2, 1 + s, 2 + s] for i, s in enumerate(sides)], 9)
    assert restore == [0, 18, 27, 1, 9, 10, 19, 28, 20]
    every = np.concatenate([np.array(v) for v in levels])
    assert np.allclose(every[restore][:, 3], np.array(sides) + 1)
    assert not every[[r for r in range(36) if r not in restore]].any()


def test_sizes_beyond_the_levels_go_to_the_nearest_level() -> None:
    rois = [[0, 0, 56, 112], [0, 0, 112, 112], [5, 5, 5, 5], [0, 0, 9000, 9000]]
    restore, *_ = levels_of(rois, 4, low=3, roi_canonical_scale=112, roi_canonical_level=4)
    assert restore == [0, 4, 1, 8]


@pytest.mark.parametrize(("canonical", "level"), [(0, 0), (2**31 + 4, 3), (2**32 - 1, 3)])
def test_an_extreme_canonical_level_does_not_overflow(canonical: int, level: int) -> None:
    """The oracle adds the level in floating point, where no sum overflows."""
    restore, *_ = levels_of([[0, 0, 50, 50]], 1, roi_canonical_level=canonical)
    assert restore == [level]


def test_a_level_with_too_few_rows_is_rejected() -> None:
    arrays = [np.array([[0, 0, 50, 50]] * 3, np.float32)]
    config = configured("DistributeFpnProposals", arrays, {}, [("i32", 3), *[("f32", 2, 4)] * 4])
    with pytest.raises(KernelError, match="too small"):
        native.run(config, arrays)


@pytest.mark.parametrize("most", [1, 4, 2000])
def test_the_best_regions_of_all_levels_are_collected(most: int) -> None:
    rng = np.random.default_rng(2)
    rois = [rng.standard_normal((n, 5), np.float32) for n in (3, 1, 4, 2, 2)]
    scores = [
        np.array(v, np.float32) for v in ([0.5, 0.1, 0.9], [0.5], [0.5, 0.2, 0.5, 0.7], [0.1, 1], [0.5, -1])
    ]
    (best,) = judged(
        "CollectRpnProposals", [*rois, *scores], {"post_nms_top": ("u32", most)}, [("f32", min(most, 12), 5)]
    )
    assert best[0] == rois[3][1].tolist()


def test_boxes_are_moved_scaled_and_clipped() -> None:
    """Measured with QNN CPU 2.47: shifts relative to the box, sizes by exponents, y is clipped at the height."""
    boxes = np.array([[10, 20, 30, 60], [0, 0, 100, 50], [90, 90, 99, 99]], np.float32)
    deltas = np.array([[0.1, 0.2, 0.3, -0.4], [0, 0, 6, 6], [1, 1, 2, 2]], np.float32)
    arrays = [boxes, deltas, np.array([0, 0, 1], np.int32), np.array([[100, 80], [50, 200]], np.float32)]
    made, splits = judged("AxisAlignedBboxTransform", arrays, {}, [("f32", 3, 4), ("i32", 2)])
    wanted = [[8.501411, 34.593597, 35.49859, 61.406403], [0, 0, 80, 100], [70.24925, 50, 136.75075, 50]]
    assert np.allclose(made, wanted, rtol=1e-6) and splits == [2, 1]
    weights = {"weights": ("f32", (10.0, 10.0, 5.0, 5.0))}
    made, _ = judged("AxisAlignedBboxTransform", arrays, weights, [("f32", 3, 4), ("i32", 2)])
    assert np.allclose(made[0], [9.581635, 22.337673, 30.818367, 59.262325], rtol=1e-6)


def test_a_batch_without_an_image_is_rejected() -> None:
    arrays = [
        np.ones((1, 4), np.float32),
        np.ones((1, 8), np.float32),
        np.array([2], np.int32),
        np.ones((2, 2), np.float32),
    ]
    config = configured("AxisAlignedBboxTransform", arrays, {}, [("f32", 1, 8), ("i32", 2)])
    with pytest.raises(KernelError, match="outside"):
        native.run(config, arrays)


#: Boxes with areas of 100, 90 and 50, the first containing the others, and a separate one.
NESTED = [[0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30], [0, 0, 10, 5]]
TWO_CLASSES = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
HARD, LINEAR, GAUSSIAN = range(3)


def limited(
    scores: Any,
    rows: int,
    method: int = HARD,
    least: float = 0.0,
    iou: float = 0.5,
    batches: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """BoxWithNmsLimit of NESTED for all classes and batches: all its results by name, without the unused rows."""
    s = np.array(scores, np.float32)
    boxes = np.tile(np.array(NESTED, np.float32), (len(s) // 4, s.shape[1]))
    arrays = [boxes, s, np.array([0] * len(s) if batches is None else batches, np.int32)]
    if "splits" in more:
        arrays.append(np.array(more.pop("splits"), np.int32))
    types = {"pre_nms_limit": "i32", "score_threshold": "f32"}
    params = {"nms_kernel_method": ("i32", method), "nms_score_threshold": ("f32", least), "sigma": ("f32", 0.5),
              "iou_threshold": ("f32", iou)} | {n: (types[n], v) for n, v in more.items()}  # fmt: skip
    count = len(arrays[3]) if len(arrays) > 3 else len(set(arrays[2].tolist()))
    outputs = [("f32", rows, 4), ("f32", rows), ("i32", rows), ("i32", rows), ("i32", count), ("i32", rows),
               ("i32", s.shape[1])]  # fmt: skip
    made = judged("BoxWithNmsLimit", arrays, params, outputs)
    found = sum(made[4])
    assert not any(np.any(made[i][found:]) for i in (0, 1, 2, 3, 5))
    names = ("boxes", "scores", "classes", "batch", "splits", "keeps", "sizes")
    return {n: m if n in ("splits", "sizes") else m[:found] for n, m in zip(names, made, strict=True)}


@pytest.mark.parametrize(
    ("method", "iou", "scores"),
    [
        (LINEAR, 0.5, [0.9, 0.7, 0.3, 0.0356, 0.4, 0.3, 0.0889, 0.005]),
        (LINEAR, 0.7, [0.9, 0.7, 0.6, 0.08, 0.4, 0.3, 0.2, 0.01]),
        (GAUSSIAN, 0.5, [0.9, 0.7, 0.3639, 0.0854, 0.4, 0.3, 0.1079, 0.0120]),
    ],
)
def test_soft_scores_fall_with_the_overlap(method: int, iou: float, scores: list[float]) -> None:
    """Measured with QNN CPU 2.47; an overlap equal to the threshold counts, and the Gaussian method ignores the threshold."""
    made = limited(TWO_CLASSES, 8, method, iou=iou)
    assert np.allclose(made["scores"], scores, atol=6e-5) and made["sizes"] == [4, 4]
    assert made["keeps"] == [0, 2, 3, 1, 3, 2, 1, 0] and made["classes"] == [0] * 4 + [1] * 4
    assert made["boxes"] == [NESTED[i] for i in made["keeps"]]


def test_boxes_below_the_minimum_score_are_dropped() -> None:
    """Measured with QNN CPU 2.47: 0 is not below 0; a score equal to the minimum is kept."""
    assert limited(TWO_CLASSES, 4, least=0.05)["keeps"] == [0, 2, 3, 2]
    assert limited(TWO_CLASSES, 8)["sizes"] == [4, 4]
    assert limited(TWO_CLASSES, 9, GAUSSIAN, least=0.1)["keeps"] == [0, 2, 3, 3, 2, 1]
    scores = [[0.5, 0.5], [0.25, 0.25], [0.5, 0.5], [0.125, 0.26]]
    assert limited(scores, 8, least=0.25, iou=1.1)["keeps"] == [0, 2, 1, 0, 2, 3, 1]


def test_scores_must_exceed_the_threshold_but_the_first_box_stays() -> None:
    """Measured with QNN CPU 2.47."""
    scores = [[0.5, 0], [0.25, 0], [0.5, 0], [0.125, 0]]
    assert limited(scores, 2, score_threshold=0.25)["keeps"] == [0, 2]
    assert limited(TWO_CLASSES, 2, least=0.95)["keeps"] == [0, 3]
    assert limited(TWO_CLASSES, 2, score_threshold=2.0)["splits"] == [0]


@pytest.mark.parametrize("splits", [False, True])
def test_the_limit_applies_per_batch(splits: bool) -> None:
    """Measured with QNN CPU 2.47: kept rows are indices within the batch, batch numbers those of the op's input."""
    scores, batches = TWO_CLASSES + TWO_CLASSES[::-1], [7] * 4 + [3] * 4
    more = {"splits": [4, 4]} if splits else {}
    made = limited(scores, 6, batches=batches, pre_nms_limit=3, **more)
    assert made["splits"] == [3, 3] and made["batch"] == [7, 7, 7, 3, 3, 3]
    assert made["keeps"] == [0, 2, 3, 3, 2, 0] and made["classes"] == [0, 0, 1, 0, 0, 1]
    assert limited(scores, 6, batches=batches, pre_nms_limit=0, **more)["splits"] == [0, 0]


def test_splits_override_the_batch_numbers() -> None:
    made = limited(TWO_CLASSES + TWO_CLASSES[::-1], 16, batches=[0, 1] * 4, splits=[3, 0, 5])
    assert made["splits"] == [6, 0, 10] and made["sizes"] == [8, 8] and made["batch"] == [0] * 6 + [1] * 10


def test_equal_scores_keep_the_first_class_and_box() -> None:
    made = limited([[0.5, 0.5]] * 4, 3, iou=1.1, pre_nms_limit=3)
    assert made["keeps"] == [0, 1, 2] and made["sizes"] == [3, 0]


@pytest.mark.parametrize(
    ("rows", "splits", "limit", "answer"),
    [(3, [4], -1, "too small"), (3, [4], 4, "too small"), (8, [5], -1, "outside"), (8, [-1], -1, "outside")],
)
def test_too_few_rows_and_invalid_splits_are_rejected(
    rows: int, splits: list[int], limit: int, answer: str
) -> None:
    arrays = [np.tile(np.array(NESTED, np.float32), 2), np.array(TWO_CLASSES, np.float32), np.zeros(4, np.int32),
              np.array(splits, np.int32)]  # fmt: skip
    params = {"nms_kernel_method": ("i32", HARD), "nms_score_threshold": ("f32", 0.0), "sigma": ("f32", 0.5),
              "iou_threshold": ("f32", 0.5), "pre_nms_limit": ("i32", limit)}  # fmt: skip
    config = configured(
        "BoxWithNmsLimit", arrays, params, [("f32", rows, 4), ("f32", rows), ("i32", rows), ("i32", rows)]
    )
    with pytest.raises(KernelError, match=answer):
        native.run(config, arrays)
