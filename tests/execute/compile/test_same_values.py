"""Tensors are recognized by their values in any order and layout, and multiples by their factors."""

from __future__ import annotations

import numpy as np

from opdb.execute.compile.same_values import Print, equal, slices

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((1, 8, 6, 6)).astype(np.float32)
W = GENERATOR.standard_normal((8, 4, 3, 3)).astype(np.float32)


def test_the_order_of_values_does_not_matter() -> None:
    assert equal(Print.of(X).over(Print.of(X.transpose(0, 2, 3, 1).reshape(36, 8))))


def test_multiples_have_a_factor() -> None:
    factor = Print.of(X * 4).over(Print.of(X))
    assert factor is not None and abs(factor - 4) < 1e-5 and not equal(factor)


def test_different_values_have_no_factor() -> None:
    for other in (np.maximum(X, 0), X + 0.01, -X, X[:, :4], np.zeros_like(X)):
        assert Print.of(X).over(Print.of(other)) is None


def test_zeros_match_zeros() -> None:
    assert equal(Print.of(np.zeros(4)).over(Print.of(np.zeros((2, 2)))))


def test_slices_match_in_another_layout() -> None:
    factors = np.array([1, -2, 0.5, 1, 3, 1, 1, -1], np.float32)
    found = slices((W * factors[:, None, None, None]).transpose(2, 3, 1, 0), 3, W)
    assert found is not None and found.axis == 0
    np.testing.assert_allclose(found.factors, factors, rtol=1e-5)


def test_a_matrix_is_distinguished_from_its_transpose() -> None:
    square = GENERATOR.standard_normal((8, 8)).astype(np.float32)
    found = slices(square.T, 0, square, in_order=True)
    assert found is not None and found.axis == 1


def test_reordered_input_channels_do_not_match_in_order() -> None:
    rows = GENERATOR.standard_normal((8, 12)).astype(np.float32)
    assert slices(rows[:, ::-1], 0, rows, in_order=True) is None
    assert slices(rows[:, ::-1], 0, rows) is not None


def test_a_different_weight_does_not_match() -> None:
    assert slices(W + 0.01, 0, W) is None
