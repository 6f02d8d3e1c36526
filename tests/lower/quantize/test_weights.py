"""Encodings of weights with fewer bits, against float arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.core.graph import GraphTensor
from opdb.lower.quantize.weights import WeightType, of_weight
from opdb.runtime.qnn.real_numbers import quantized, to_real

W = np.random.default_rng(0).normal(size=(1, 1, 128, 24)).astype(np.float32)
W[..., 5] = 0  # a channel that is always zero
W[..., 7] *= 1000


def back(weight: WeightType, axis: int | None, data: Any = W) -> tuple[Any, Any]:
    """The real values of the stored weights, and the stored integers."""
    quant = of_weight(data, "sq8", True, axis, weight)
    stored = quantized(data, "sq8", quant, "w")
    return to_real(GraphTensor("w", "sq8", data.shape, "STATIC", stored, quant), stored), stored


def test_per_channel_errors_are_at_most_half_a_step() -> None:
    real, stored = back(WeightType(bits=4), 3)
    step = np.abs(W).max((0, 1, 2)) / 7
    assert np.abs(stored).max() == 7
    assert (np.abs(real - W) <= step / 2 * 1.00001).all()


def test_a_single_scale_covers_all_channels() -> None:
    real, _ = back(WeightType(bits=4, per_channel=False), None)
    assert np.abs(real - W).max() <= np.abs(W).max() / 14 * 1.00001


@pytest.mark.parametrize("block", [16, 32, 64])
def test_blocks_are_more_accurate_than_channels(block: int) -> None:
    real, stored = back(WeightType(bits=4, block=block), 3)
    channels, _ = back(WeightType(bits=4), 3)
    assert stored.min() >= -8 and stored.max() <= 7
    assert ((real - W) ** 2).sum() < ((channels - W) ** 2).sum()


def test_blocks_of_a_linear_layer_run_along_its_inputs() -> None:
    rows = W[0, 0].T.copy()
    (real, stored), (image, of_image) = (
        back(WeightType(bits=4, block=32), 0, rows),
        back(WeightType(bits=4, block=32), 3),
    )
    np.testing.assert_array_equal(stored, of_image[0, 0].T)
    np.testing.assert_array_equal(real, image[0, 0].T)


def test_blocks_must_divide_the_weights() -> None:
    blocks = WeightType(bits=4, block=32)
    assert blocks.divides((1, 1, 64, 8), 3) and blocks.divides((8, 64), 0)
    assert not blocks.divides((3, 3, 64, 8), 3) and not blocks.divides((1, 1, 48, 8), 3)
    assert not WeightType(bits=4).divides((1, 1, 64, 8), 3)


@pytest.mark.parametrize("numbers", [(-8, 3, 5), (7, -2, 1), (5, -5, 3), (-8, 7, 0), (1, -1, 0)])
def test_already_rounded_weights_are_stored_exactly(numbers: tuple[int, ...]) -> None:
    """Three channels with different steps, as rounded by another tool; the last channel is on no grid."""
    whole = np.array([*numbers, *numbers], np.float32)
    steps = np.array([0.01, 0.3, 7.7], np.float32)
    data = np.concatenate([whole[:, None] * steps, W[0, 0, : len(whole), :1]], 1).reshape(1, 1, -1, 4)
    real, stored = back(WeightType(bits=4), 3, data)
    np.testing.assert_allclose(real[..., :3], data[..., :3], rtol=1e-6)
    assert stored.min() >= -8 and stored.max() <= 7
    assert np.abs(stored[..., 3]).max() == 7


def test_already_rounded_weights_may_share_a_scale() -> None:
    data = np.array([[-8, 1, 0], [2, 6, -3]], np.float32) * np.float32(0.37)
    real, stored = back(WeightType(bits=4, per_channel=False), None, data)
    np.testing.assert_array_equal(stored, [[-8, 1, 0], [2, 6, -3]])
    np.testing.assert_allclose(real, data, rtol=1e-6)
