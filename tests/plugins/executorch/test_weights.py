"""Recipes of ExecuTorch's quantizer with few bits or only weights, and tensors without an encoding: results as with its builders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


@pytest.fixture(scope="module")
def everything(environment: env.Environment) -> dict[str, Any]:
    found: dict[str, Any] = process.call(
        "weight_cases:everything", environment=environment, path=[Path(__file__).parent]
    )
    return found


@pytest.mark.parametrize("case", ["weights of 2 bits", "weights of 2 bits without a bias"])
def test_a_2_bit_linear_layer_is_not_decomposed(everything: dict[str, Any], case: str) -> None:
    """The sum, if decomposed, would mix floats and stored integers, which QNN refuses."""
    got = everything[case]
    assert got.ranges[0] == (-2, 1)
    assert got.left == () and got.forms == ["FullyConnected", "Reshape", "Reshape"]
    assert got.error < 2e-3  # with ExecuTorch's builders as well


def test_weights_of_half_precision_layers_are_quantized(everything: dict[str, Any]) -> None:
    got = everything["halves with weights of 8 bits"]
    assert got.ranges == [(-127, 127)] * 3
    assert got.left == () and got.error < 5e-3


@pytest.mark.parametrize("case", ["isinf", "isnan"])
def test_tests_for_infinity_are_not_quantized(everything: dict[str, Any], case: str) -> None:
    """An observer would end the calibration at the first infinity ("min nan should be less than max nan")."""
    got = everything[case]
    assert not got.annotated and got.same
