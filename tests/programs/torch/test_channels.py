"""Per-channel factors as an integer filter: its stored values represent the given numbers."""

from __future__ import annotations

import numpy as np
import pytest

from opdb.core.op_config import Quant
from opdb.runtime.per_channel import LARGEST_SHIFT, channel_bias, channel_filter, floats, numbers
from opdb.runtime.tensors import Rejection, TensorRef, full, inverse_root, minus, times

X = TensorRef((1, 4, 5, 3), "uq8", key=("x", 0), quant=Quant("SCALE_OFFSET", (0.02,), (-128,)))


def known(name: str, values: list[float], dtype: str = "f32", quant: Quant | None = None) -> TensorRef:
    """A constant of a program, whose numbers the view knows."""
    array = np.array(values, {"f32": np.float32, "sq8": np.int8}[dtype])
    shape = array.shape
    return TensorRef(shape, dtype, True, (name, 0), quant=quant, base_shape=shape, values=lambda: array)


def real(t: TensorRef) -> np.ndarray:
    assert t.quant is not None and set(t.quant.offset) == {0}
    return np.reshape(t.data, -1) * np.array(t.quant.scale)


def test_each_factor_is_exact() -> None:
    factors = [1.5, -1e-3, 3e-6, 700.0]
    filter = channel_filter(known("f", factors), full((4,), 0.0, "f32"), X)
    assert (filter.shape, filter.dtype, filter.axis, filter.encoding) == (
        (1, 1, 1, 4),
        "sq8",
        3,
        "AXIS_SCALE_OFFSET",
    )
    np.testing.assert_allclose(real(filter), factors, rtol=1e-6)
    assert set(np.abs(filter.data)) == {127}


def test_shifts_are_stored_in_steps_of_the_products() -> None:
    factor, shift = known("f", [0.5, -2.0]), known("s", [0.25, -3.0])
    filter = channel_filter(factor, shift, X)
    bias = channel_bias(shift, X, filter)
    assert (bias.shape, bias.dtype, bias.axis) == ((2,), "sq32", 0)
    np.testing.assert_allclose(bias.quant.scale, np.array(filter.quant.scale) * 0.02, rtol=1e-6)
    np.testing.assert_allclose(real(bias), [0.25, -3.0], atol=2e-4)


def test_a_near_zero_factor_does_not_overflow_the_shift() -> None:
    factor, shift = known("f", [0.0, 1e-12, 0.0]), known("s", [5.0, -5.0, 0.0])
    filter = channel_filter(factor, shift, X)
    bias = channel_bias(shift, X, filter)
    assert np.abs(bias.data).max() <= LARGEST_SHIFT * 1.001
    np.testing.assert_allclose(real(bias), [5.0, -5.0, 0.0], rtol=1e-5)
    assert np.abs(real(filter)).max() < 1e-6


def test_numbers_are_computed_from_stored_values() -> None:
    weight = known("w", [-4, 8], "sq8", Quant("SCALE_OFFSET", (0.5,), (0,)))
    variance, mean = known("v", [0.25, 1.0]), known("m", [1.0, -1.0])
    factor = times(floats(weight), inverse_root(variance, 0.0))
    np.testing.assert_allclose(numbers(factor), [-4.0, 4.0])
    np.testing.assert_allclose(numbers(minus(full((2,), 1.0, "f32"), times(mean, factor))), [5.0, 5.0])


def test_unknown_or_infinite_factors_are_refused() -> None:
    unknown = TensorRef((2,), "f32", True, ("f", 0), base_shape=(2,))
    later = TensorRef((2,), "f32", True, ("f", 0), base_shape=(2,), values=lambda: None)
    zeros = full((2,), 0.0, "f32")
    for t in (unknown, later):
        with pytest.raises(Rejection, match="a factor whose value is not known here"):
            channel_filter(t, zeros, X)
    with pytest.raises(Rejection, match="infinite or no number"):
        channel_filter(known("f", [1.0, float("inf")]), zeros, X)
    with pytest.raises(Rejection, match="the encoding BW_SCALE_OFFSET"):
        floats(known("w", [1], "sq8", Quant("BW_SCALE_OFFSET", (0.5,), (0,), bits=4)))
