"""opdb.plugins.executorch.register(): models through ExecuTorch's own flow, executed on the HTP emulation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from opdb.plugins.executorch import env, process
from opdb.plugins.executorch.patches.casts import keeps_values

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

HERE = Path(__file__).parent
FP16 = 5e-3  # HTP's softplus is 4e-3 of its largest value away
STEPS = 3


@pytest.fixture(scope="module")
def everything(environment: env.Environment) -> dict[str, Any]:
    found: dict[str, Any] = process.call(
        "plugged_cases:everything", environment=environment, path=[HERE], timeout=900
    )
    return found


@pytest.mark.parametrize(
    "case",
    [
        "softplus stays whole",
        "softmax over another dimension",
        "indices leave as int64",
        "values and indices",
        "one of two results",
        "one of several pieces",
        "indices come as int64",
        "constants of int64",
        "a number of a line",
        "Conv1d without a batch",
        "ConvTranspose1d without a batch",
        "a bool becomes a float",
        "an input that is written over",
        "int64 that is written over",
    ],
)
def test_a_float_module_is_delegated_and_right(everything: dict[str, Any], case: str) -> None:
    got = everything["floats"][case]
    assert got.left == ()
    assert got.wrong < FP16
    assert got.same_types


def test_an_operator_with_a_builder_is_not_decomposed(everything: dict[str, Any]) -> None:
    assert everything["floats"]["softplus stays whole"].forms == {"aten_softplus_default": "softplus"}


@pytest.mark.parametrize("case", ["softplus 8a8w", "softplus 16a8w", "group_norm 8a8w", "sin 8a8w"])
def test_a_quantized_module_is_delegated_and_right(everything: dict[str, Any], case: str) -> None:
    """ExecuTorch has a rule for sin, but none for the others."""
    got = everything["quantized"][case]
    assert got.annotated >= 2
    assert got.left == ()
    assert got.wrong <= (
        STEPS if "16a" not in case else 0.01 * 2**16
    )  # HTP computes softplus of 16 bits roughly


@pytest.mark.parametrize("case", ["alone", "beside its readers", "of two graphs"])
def test_a_returned_constant_is_not_a_graph_output(everything: dict[str, Any], case: str) -> None:
    """No op would write it, and ExecuTorch's runtime would return the next result instead of it."""
    got = everything["constants that leave"][case]
    assert set(got.left) - {"aten_masked_scatter_default"} == {"aten_full_default"}
    assert got.wrong < FP16 and got.same_types


def test_an_operator_without_a_builder_is_left_to_the_cpu(everything: dict[str, Any]) -> None:
    got = everything["unmapped"]
    assert got.stock.startswith("KeyError") == (env.release() < (1, 5))
    assert got.left == ("aten_masked_scatter_default",)
    assert (
        "QNN has no op for aten.masked_scatter.default"
        in got.reasons["aten_masked_scatter_default"][0].message
    )
    assert "aten_relu_default" in got.delegated
    assert got.error < 0.02


def test_a_node_with_int64_results_is_left_to_the_cpu(everything: dict[str, Any]) -> None:
    got = everything["whole results"]
    assert "Multi output nodes" in got.stock
    assert got.left == ("aten__embedding_bag_default",)


def test_keep_stock_reports_the_differences(everything: dict[str, Any]) -> None:
    told = everything["compared"]
    assert told["aten.relu.default"] == told["aten.convolution.default"] == ()
    assert told["aten._softmax.default"] == ()
    assert any("scale" in line or "ops: Elu |" in line for line in told["aten.elu.default"])


DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.float16, torch.float32]


@pytest.mark.parametrize("through", DTYPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_cast_keeps_values_if_pytorch_does(dtype: torch.dtype, through: torch.dtype) -> None:
    if dtype.is_floating_point:
        values = torch.tensor([0.5, -1.25, 65504.0, 6e-8, 0.0], dtype=dtype)
        values = values if dtype == torch.float16 else torch.cat([values, torch.tensor([1e30, 1 + 2**-20])])
    elif dtype == torch.bool:
        values = torch.tensor([False, True])
    else:
        info = torch.iinfo(dtype)
        values = torch.tensor([info.min, info.max, info.max - 1, 0, 1], dtype=dtype)
    assert keeps_values(dtype, through) == torch.equal(values.to(through).double(), values.double())
