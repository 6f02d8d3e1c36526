"""Modules that ExecuTorch's passes reject or change, or whose quantized ops HTP lacks: fully delegated, and right.

`python benchmarks/whole_flow.py` runs all modules of corpus/operators this way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

COVERAGE = Path(__file__).parents[2] / "coverage"
#: ExecuTorch's passes raise at these ...
ENDED = [
    "cdist_1",
    "attention_scaled",
    "attention_causal_oblong",
    "add_scalar_alpha",
    "rsub_scaled",
    "take",
    "topk",
    "sort_up",
    "max_and_place",
    "max_pool_ceil_core",
]
#: ... and change the numbers or the shape of these; or the runtime reads them in another order.
CHANGED = [
    "max_pool_ceil_padded",
    "roll_far",
    "rot90",
    "any_numbers_dims",
    "remainder_ints",
    "attention_masked",
]
#: QNN has no op of quantized tensors for these.
IN_FLOATS = [
    "avg_pool3d",
    "batch_norm",
    "batch_norm_core",
    "elu_scaled",
    "std_mean",
    "bilinear_by",
    "nearest_down",
    "instance_norm_statistics",
    "clamp_crossed",
    "grid_0_0_True",
    "put_added",
]
#: PyTorch pads apart for these, at a place where HTP's Pad is wrong.
EVEN_FILTERS = ["conv1d_same", "conv2d_same", "conv3d_same"]
#: Quantizing raises at these, or takes whole numbers for numbers of floating point.
QUANTIZED = [
    "full_like",
    "diagonal_above",
    "cdist_1",
    "rsub_scaled",
    "take",
    "max_pool_ceil_padded",
    *IN_FLOATS,
    *EVEN_FILTERS,
]
WHOLE_NUMBERS = ["put_numbers", "index_copy_last", "select_scatter_first", "diagonal_below"]


def outcomes(environment: env.Environment, names: list[str], recipe: str) -> dict[str, str]:
    lines = process.call(
        "whole_flow:measure", names, recipe, "SM8650", environment=environment, path=[COVERAGE], timeout=900
    )
    return {line["name"]: line["outcome"] for line in lines}


def test_float_modules_are_delegated_and_right(environment: env.Environment) -> None:
    found = outcomes(environment, [*ENDED, *CHANGED], "fp16")
    assert found == dict.fromkeys((*ENDED, *CHANGED), "right")


@pytest.mark.breadth
def test_quantized_modules_are_delegated_and_right(environment: env.Environment) -> None:
    found = outcomes(environment, [*QUANTIZED, *WHOLE_NUMBERS], "8a8w")
    assert found == dict.fromkeys(QUANTIZED, "right") | dict.fromkeys(WHOLE_NUMBERS, "floats")


def test_a_5d_cast_to_int64_is_left_to_the_cpu(environment: env.Environment) -> None:
    """HTP's finalize crashes on one (HTP-0001); the node falls back to the CPU."""
    assert outcomes(environment, ["to_integers_rank_5"], "fp16") == {"to_integers_rank_5": "partly"}
