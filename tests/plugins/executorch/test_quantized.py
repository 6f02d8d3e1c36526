"""Quantized nodes become one op if HTP has one, with errors within three steps, or are left with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
#: Steps that the emulation is off in 16 bits, with ExecuTorch's own builders as well: at most 6e-4 of the range.
#: A bicubic resize of corners is many nodes in half precision: 2.4e-3.
OFF = {
    "bicubic of corners 16a8w": 180,
    **{f"attention of a batch of {n} 16a8w": 40 for n in (1, 2, 3)},
    "log 16a8w": 15,  # in fp16
    "log_softmax of 65 16a8w": 70,  # a chain in fp16
    "log_softmax of 129 16a8w": 60,
    "Linear 16a4w": 12,
    "Linear 16a4w_block": 19,
    "Linear 16a16w": 37,
    "Conv2d 16a4w": 22,
    "Conv3d 16a4w": 14,
    "ConvTranspose3d 16a4w": 21,
}


@pytest.mark.breadth
def test_quantized_nodes_are_delegated_and_right(environment: env.Environment) -> None:
    found = process.call(
        "quantized_cases:outcomes", environment=environment, path=[Path(__file__).parent], timeout=900
    )
    wrong = {n: got.steps for n, got in found.items() if got.steps > OFF.get(n, 3) + 0.01}
    assert wrong == {}
    assert {name: got.left for name, got in found.items() if got.left} == {}


@pytest.mark.parametrize(("soc", "recipe"), [("SM8350", "8a8w"), ("SM8650", "8a8w"), ("SM8650", "16a8w")])
def test_a_buffer_keeps_its_initial_and_written_values(
    environment: env.Environment, soc: str, recipe: str
) -> None:
    errors = process.call(
        "quantized_cases:calls_of_a_cache", soc, recipe, environment=environment, path=[Path(__file__).parent]
    )
    assert max(errors) < 2 / 255 if recipe == "8a8w" else max(errors) < 6 / 65535


def test_calibration_does_not_change_buffers(environment: env.Environment) -> None:
    folder = [Path(__file__).parent]
    own, held = process.call(
        "quantized_cases:buffers_after_calibration", environment=environment, path=folder
    )
    assert own == held == [7.0] * 4


@pytest.mark.parametrize(
    ("soc", "recipe", "steps"),
    [
        ("SM8650", "8a8w", 3),
        pytest.param("SM8350", "8a8w", 3, marks=pytest.mark.breadth),
        pytest.param("SM8650", "16a8w", 40, marks=pytest.mark.breadth),
    ],
)
def test_each_channel_of_a_batch_norm_has_a_scale(
    environment: env.Environment, soc: str, recipe: str, steps: float
) -> None:
    """ExecuTorch's builder, with a single scale for all factors, is off by 252 of 255 steps and 64,663 of 65,535."""
    off = process.call(
        "quantized_cases:steps_of_unlike_channels",
        soc, recipe, environment=environment, path=[Path(__file__).parent],
    )  # fmt: skip
    assert off < steps + 0.01


def test_v68_computes_some_nodes_in_floats(environment: env.Environment) -> None:
    found = process.call("quantized_cases:on_v68", environment=environment, path=[Path(__file__).parent])
    assert {name: (got.left, got.steps) for name, got in found.items() if got.left or got.steps > 3.01} == {}


def test_cpu_results_for_a_delegate_are_quantized(environment: env.Environment) -> None:
    """The view's encoding comes from a Dequantize, which ExecuTorch 1.4.1 would put after it."""
    found = process.call(
        "quantized_cases:view_on_the_cpu", environment=environment, path=[Path(__file__).parent]
    )
    assert list(found.left) == ["aten_view_copy_default_1"]
    assert found.steps <= 3


def test_linear_layer_blocks_become_8_bit_channels(environment: env.Environment) -> None:
    steps = process.call(
        "quantized_cases:linear_in_blocks", environment=environment, path=[Path(__file__).parent]
    )
    assert steps <= 20  # as one of 4 bits by channel: OFF


def test_results_keep_the_programs_order(environment: env.Environment) -> None:
    found = process.call(
        "quantized_cases:several_results", environment=environment, path=[Path(__file__).parent]
    )
    assert found.left == ()
    (values, indices), (wanted, places) = found.got, found.wanted
    assert indices == places
    assert [pytest.approx(row, abs=1e-6) for row in wanted] == values


def test_a_mask_with_infinities_is_reported_with_a_fix(environment: env.Environment) -> None:
    said = process.call(
        "quantized_cases:mask_of_infinities", environment=environment, path=[Path(__file__).parent]
    )
    assert "_safe_softmax" in said and "a scale that is not finite" in said and "-1e4" in said
