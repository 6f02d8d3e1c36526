"""ExecuTorch's own flow for SM8650 on the HTP emulation, with its builders and with opdb's instead.

opdb's are the generated ones; a few handwritten lowerings (hand_lowering.py) reach corner cases of the adapter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.generated.builders import TARGETS
from opdb.plugins.executorch import env, flow, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]

HERE = Path(__file__).parent
#: A float graph is computed in fp16 on HTP: 11 bits, and errors of a few roundings.
FP16 = 2e-3
EIGHT_BITS = 2 / 127  # two steps, of a range that reaches to both sides of zero
PLUGGED = [
    "demo",
    "layer_norm_over_two_dims",
    "layer_norm_without_weights",
    "conv_relu",
    "conv_grouped_without_bias",
    "conv_softmax_over_channels",
    "conv_add_constant",
    "conv_cat_mean",
    "conv_split",
    "conv_layer_norm",
    "conv_index",
    "conv_index_apart",
    "conv_index_put",
    "conv_slice_scatter",
    "conv_scatter_add",
    "truth",
    "integers",
    "matmul_in_region",
    "resized_table",
]
QUANTIZED = ["demo", "conv_relu", "layer_norm_without_weights", "matmul_in_region"]


@pytest.fixture(scope="module")
def everything(environment: env.Environment) -> dict[str, Any]:
    """All cases, in one child process."""
    result: dict[str, Any] = process.call(
        "flow_cases:everything", environment=environment, path=[HERE], timeout=900
    )
    return result


@pytest.fixture
def plugged(everything: dict[str, Any]) -> dict[str, Any]:
    """Cases with opdb's builders."""
    found: dict[str, Any] = everything["plugged"]
    return found


@pytest.fixture
def stock(everything: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = everything["stock"]
    return found


@pytest.mark.parametrize("case", PLUGGED)
def test_the_whole_model_is_delegated_and_right(plugged: dict[str, Any], case: str) -> None:
    got = plugged[case]
    assert got.not_delegated == ()
    assert got.error < FP16


def test_the_demo_gives_the_stock_builders_graph(plugged: dict[str, Any], stock: dict[str, Any]) -> None:
    assert stock["demo"].error < FP16 and stock["demo"].not_delegated == ()
    assert plugged["demo"].delegated == stock["demo"].delegated
    assert plugged["demo"].ops == stock["demo"].ops == ("LayerNorm", "FullyConnected")
    assert set(plugged["demo"].forms.values()) == {"LayerNorm", "FullyConnected"}


def test_only_the_stock_builder_refuses_layer_norm_over_two_dims(
    plugged: dict[str, Any], stock: dict[str, Any]
) -> None:
    refused = stock["layer_norm_over_two_dims"]
    assert refused.delegated == () and refused.not_delegated == ("aten_native_layer_norm_default",)
    assert plugged["layer_norm_over_two_dims"].ops == ("Reshape", "LayerNorm", "Reshape")


def test_a_convolution_gets_no_extra_transposes(plugged: dict[str, Any], stock: dict[str, Any]) -> None:
    assert plugged["conv_relu"].ops == stock["conv_relu"].ops == ("Transpose", "Conv2d", "Relu", "Transpose")


@pytest.mark.parametrize(
    ("case", "ops"),
    [
        ("conv_softmax_over_channels", ("Transpose", "Conv2d", "Softmax", "Transpose")),
        ("conv_add_constant", ("Transpose", "Conv2d", "ElementWiseAdd", "Relu", "Transpose")),
        ("conv_cat_mean", ("Transpose", "Conv2d", "Relu", "Concat", "ReduceMean", "Transpose")),
    ],
)
def test_commuting_operators_stay_in_the_channels_last_region(
    plugged: dict[str, Any], case: str, ops: tuple[str, ...]
) -> None:
    assert plugged[case].ops == ops


def test_a_non_commuting_operator_is_transposed_back_first(
    plugged: dict[str, Any], stock: dict[str, Any]
) -> None:
    """The stock builder multiplies the transposed operands; a bug of ExecuTorch 1.4.1."""
    assert stock["matmul_in_region"].error > 0.1
    assert plugged["matmul_in_region"].error < FP16


def test_a_product_ends_the_channels_last_region(everything: dict[str, Any]) -> None:
    """ExecuTorch lists bmm as layout-agnostic, which it is not; only the softmax is stored transposed."""
    got = everything["by_hand"]["matmul_in_region"]
    assert got.error < FP16
    assert got.ops == ("Transpose", "Softmax", "Transpose", "Relu", "Transpose", "MatMul")


@pytest.mark.parametrize("case", QUANTIZED)
def test_the_whole_quantized_model_is_delegated_and_right(everything: dict[str, Any], case: str) -> None:
    """Encodings per tensor and per channel, against the quantized module."""
    got = everything["quantized"][case]
    assert got.not_delegated == ()
    assert got.error < EIGHT_BITS


@pytest.mark.parametrize("case", ["demo", "conv_relu"])
def test_encodings_reach_the_backend_like_the_stock_ones(everything: dict[str, Any], case: str) -> None:
    got, expected = everything["quantized"][case], everything["stock_quantized"][case]
    assert got.ops == expected.ops
    assert got.error == expected.error


def test_qnns_refusals_are_distinguished_from_opdbs(everything: dict[str, Any]) -> None:
    """HTP supports no LayerNorm over two axes: the direct form passes our rules here but not its validator."""
    (got,) = everything["direct"].values()
    (reasons,) = got.reasons.values()
    assert got.delegated == () and [r.rule for r in reasons] == ["vendor"]


def test_an_unavailable_result_is_rejected_with_its_reason(everything: dict[str, Any]) -> None:
    (got,) = everything["second_result"].values()
    assert got.delegated == () and got.error < 1e-6  # on the CPU
    (reasons,) = got.reasons.values()
    assert reasons[0].rule == "LayerNorm.M_aten.native_layer_norm.default"
    assert reasons[0].message.startswith("result 1 is used")


def test_builder_faults_and_qnn_refusals_are_recorded(
    everything: dict[str, Any],
) -> None:
    got = everything["failing"]
    assert got["fault"] == "ZeroDivisionError: a fault in a builder"
    assert got["refused"].startswith("opdb's rules accept the node, QNN's validator refuses it")
    assert got["changed"].startswith("OpdbError: aten_relu_default: accepted while partitioning")


def test_a_node_accepted_on_retry_is_delegated(everything: dict[str, Any]) -> None:
    """HTP's validator refused a product of integers in one run of ExecuTorch's suite, and accepted it in all others."""
    assert everything["failing"]["refused once"] == "('aten_relu_default',)"


def test_register_makes_only_documented_changes_and_is_undone(everything: dict[str, Any]) -> None:
    seen = everything["registry"]
    assert {what for what, holds in seen.items() if not holds} == set()


def test_an_exported_program_is_compiled_and_run_in_child_processes(environment: env.Environment) -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.LayerNorm([768], eps=1e-6), torch.nn.Linear(768, 100)).eval()
    x = torch.randn(200, 768)
    program = torch.export.export(module, (x,))
    plugin = flow.Plugin(
        "opdb.lower.select:lower", Target("HTP", "SM8650", execution="emulator"), tuple(TARGETS)
    )
    compiled = flow.compile_program(program, "SM8650", environment=environment, plugin=plugin)
    assert compiled.not_delegated == () and len(compiled.forms) == 2
    (y,) = flow.run_program(compiled.pte, [x.numpy()], environment=environment)
    expected = module(x).detach().numpy()
    assert y.shape == (200, 100) and y.dtype == np.float32
    assert np.abs(y - expected).max() / np.abs(expected).max() < FP16


def test_an_operator_that_cannot_fall_back_names_the_reason(everything: dict[str, Any]) -> None:
    """ExecuTorch keeps linear whole for the delegate, so the CPU has no kernel for it."""
    told = everything["refusals"]["kept whole"]
    assert told.startswith("aten_linear_default: not taken by QNN")
    assert "FullyConnected.C1: never a linear" in told


def test_a_misspelled_soc_is_one_clear_error(everything: dict[str, Any]) -> None:
    told = everything["refusals"]["misspelt"]
    assert told == "SoC 'SM8651' is not known to ExecuTorch; did you mean 'SM8650'?"


def test_an_unknown_precision_is_refused_up_front(environment: env.Environment) -> None:
    program = torch.export.export(torch.nn.ReLU(), (torch.randn(2, 4),))
    with pytest.raises(OpdbError, match=r"^precision 'fp32': one of fp16, quantized$"):
        flow.compile_program(program, "SM8650", environment=environment, precision="fp32")


def test_keyword_inputs_are_refused_up_front(environment: env.Environment) -> None:
    program = torch.export.export(torch.nn.ReLU(), (), {"input": torch.randn(2, 4)})
    with pytest.raises(OpdbError, match=r"keyword inputs \(input\)"):
        flow.compile_program(program, "SM8650", environment=environment)


def test_an_invalid_program_is_one_clear_error(environment: env.Environment) -> None:
    with pytest.raises(process.ChildError, match="_run_arrays failed: RuntimeError"):
        flow.run_program(b"not a program" * 100, [np.zeros(3, np.float32)], environment=environment)
