"""Conditions under which numbers count as equal."""

from __future__ import annotations

import numpy as np
import pytest

from opdb.core.op_config import OpConfig, Quant, TensorConfig, centered
from opdb.measure.conformance import data
from opdb.measure.conformance.tolerance import Bounds, compare

ONE = np.float32(1.0)


def config(dtype: str, n: int = 1, quant: Quant | None = None) -> OpConfig:
    return OpConfig("Relu", outputs=(TensorConfig("y", dtype, (n,), quant=quant or centered(dtype)),))


@pytest.mark.parametrize(("ulps", "matches"), [(0, True), (3, True), (4, True), (5, False)])
def test_float32_is_compared_in_ulps(ulps: int, matches: bool) -> None:
    got = np.array([ONE + ulps * np.spacing(ONE)], np.float32)
    found = compare(config("f32"), [np.array([1.0])], [got], {"f32": Bounds(4, 0.0)})
    assert (found.matches, found.ulp) == (matches, ulps)


def test_float32_has_an_absolute_floor() -> None:
    near_zero = [np.array([1e-9])], [np.array([5e-7], np.float32)]
    assert compare(config("f32"), *near_zero, {"f32": Bounds(1, 1e-6)}).matches
    assert not compare(config("f32"), *near_zero, {"f32": Bounds(1, 1e-8)}).matches


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_match_only_themselves(bad: float) -> None:
    value = np.array([bad])
    allowed = {"f32": Bounds(1e9, 1e9)}
    assert compare(config("f32"), [value], [value.astype(np.float32)], allowed).matches
    found = compare(config("f32"), [np.array([1.0])], [value.astype(np.float32)], allowed)
    assert not found.matches
    assert found.error_max == np.inf


def test_float16_is_tight() -> None:
    """Within eight units of 11 bits; 1 in 100 is too much."""
    want = np.array([1.0, 0.5, 0.25])
    for factor, matches in ((1 + 2**-8, True), (1.01, False)):
        got = (want * factor).astype(np.float32)
        assert compare(config("f32", 3), [want], [got], {}, half=True).matches is matches


@pytest.mark.parametrize(("steps", "matches"), [(0, True), (2, True), (3, False)])
def test_quantized_values_are_compared_in_steps(steps: int, matches: bool) -> None:
    setup = config("uq8")
    zero = data.stored(np.array([0.0]), setup.outputs[0])
    found = compare(setup, [np.array([0.0])], [zero + np.uint8(steps)], {"f32": Bounds(4, 0)})
    assert (found.matches, found.ulp) == (matches, steps)


def test_values_beyond_the_encoding_saturate() -> None:
    setup = config("uq8")
    assert compare(setup, [np.array([99.0])], [np.array([255], np.uint8)], {}).matches


@pytest.mark.parametrize("dtype", ["i32", "bool8", "u8"])
def test_integers_must_be_equal(dtype: str) -> None:
    kind = {"i32": np.int32, "bool8": np.bool_, "u8": np.uint8}[dtype]
    want = np.array([True]) if dtype == "bool8" else np.array([1])
    assert compare(config(dtype), [want], [np.array([1], kind)], {}).matches
    assert not compare(config(dtype), [want], [np.array([0], kind)], {}).matches


def test_a_wrong_shape_never_matches() -> None:
    found = compare(config("f32", 2), [np.zeros(2)], [np.zeros((2, 1), np.float32)], {})
    assert not found.matches
    assert "shape" in found.detail


def test_moved_data_must_be_bit_identical() -> None:
    exact = {"f32": Bounds(0.0, 0.0)}
    assert not compare(config("f32"), [np.array([1.0])], [np.array([ONE + np.spacing(ONE)])], exact).matches


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8", "u32", "bool8", "uq8", "sq8", "uq16", "sq32"])
def test_data_depend_only_on_the_id(dtype: str) -> None:
    tensor = TensorConfig("x", dtype, (3, 5), quant=centered(dtype))
    made = OpConfig("Relu", (tensor,))
    first, again, other = (data.inputs(i, made)[0] for i in ("a", "a", "b"))
    assert first is not None and again is not None and other is not None
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    back = data.real(first, tensor)
    if back.dtype.kind == "f":
        assert np.abs(back).max() <= 4.0


def test_stored_and_real_are_inverse_for_axis_encodings() -> None:
    quant = Quant("AXIS_SCALE_OFFSET", (0.5, 0.25), (0, 0), 0)
    tensor = TensorConfig("w", "sq8", (2, 3), quant=quant)
    real = np.array([[1.0, -2.0, 0.5], [0.25, 1.5, -1.0]])
    assert np.array_equal(data.real(data.stored(real, tensor), tensor), real)
