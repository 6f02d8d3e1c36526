"""Faults of HTP that ``quantize`` avoids: results of the vendor's emulation against PyTorch in floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from emulated import WITH_FLOATS, WITHOUT, Module, X, signal_to_noise
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.execute.compile.quantized_check import quantized_coverage
from opdb.lower.quantize import named, quantize
from opdb.runtime.qnn.real_numbers import to_real

pytestmark = pytest.mark.vendor
Call = Callable[..., Any]
IMAGE = torch.randn(1, 8, 9, 10, generator=torch.Generator().manual_seed(1))
ROWS = torch.tensor([[0, 1, 2, 3], [2, 3, 1, 0]])


def weights(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(2)) * 0.1


FILTER, TURNED, SINGLE, LINE, ROW = (
    weights(*shape) for shape in ((1, 8, 3, 3), (8, 1, 3, 3), (1, 1, 2, 2), (1, 8, 3), (1, 16))
)
THREE, FIVE, ONE = torch.tensor([3.0]), torch.tensor(5.0), torch.tensor(1.0)
MATRIX, RAMP = weights(16, 24), torch.linspace(1, 2, 16)
EACH, EACH_BIAS = weights(8, 1, 3, 3), weights(8)
GAPS, GAPS_BIAS = weights(5, 8, 1, 3), weights(5)
SLOPES = torch.linspace(0.1, 0.9, 8)


def made(function: Call, inputs: tuple[Any, ...], soc: str, scheme: str) -> QnnGraph:
    target = Target("HTP", soc, execution="emulator")
    _, graph = lowered(torch.export.export(Module(function), inputs), target, "g", to_quantize=True)
    assert graph is not None
    given = {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}
    return quantize(graph, [given], target=target, recipe=scheme)


#: Ops with one output channel: HTP drops a bias with a single scale if the weights have scales along an axis.
ONE_CHANNEL: dict[str, tuple[Call, torch.Tensor]] = {
    "convolution": (lambda x: functional.conv2d(x, FILTER, THREE), IMAGE),
    "transposed": (lambda x: functional.conv_transpose2d(x, TURNED, THREE), IMAGE),
    "depthwise": (lambda x: functional.conv2d(x, SINGLE, THREE), IMAGE[:, :1]),
    "line": (lambda x: functional.conv1d(x, LINE, THREE), IMAGE[:, :, 0]),
    "linear": (lambda x: functional.linear(x, ROW, THREE), X),
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", ONE_CHANNEL)
def test_the_bias_of_a_single_channel_is_added(name: str, scheme: str, soc: str) -> None:
    function, x = ONE_CHANNEL[name]
    (found,) = signal_to_noise(function, (x,), soc, scheme, [])
    assert found > (33 if scheme == "8a8w" else 40), found  # 8 dB and less without the bias


#: Updates have another range than the tensor they are written into.
WRITTEN: dict[str, tuple[Call, tuple[torch.Tensor, ...]]] = {
    "scatter": (lambda x, u: x.scatter(0, ROWS, u), (weights(4, 4) * 20, weights(2, 4).abs())),
    "scatter_add": (lambda x, u: x.scatter_add(0, ROWS, u), (weights(4, 4) * 20, weights(2, 4).abs())),
    "index_put": (
        lambda x, u: x.index_put((torch.tensor([1, 3]),), u),
        (weights(4, 4) * 20, weights(2, 4).abs()),
    ),
    "slice_scatter": (lambda x, u: x.slice_scatter(u, 1, 0, 4, 2), (weights(4, 4) * 20, weights(4, 2).abs())),
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", WRITTEN)
def test_values_written_into_a_tensor_are_kept(name: str, scheme: str, soc: str) -> None:
    function, inputs = WRITTEN[name]
    (found,) = signal_to_noise(function, inputs, soc, scheme, [])
    assert found > (38 if scheme == "8a8w" else 80), found  # 5 to 25 dB in stored numbers of updates


SUMS: dict[str, Call] = {
    "relu": lambda x: torch.relu(x * 1.25) + 2.0,
    "clamp": lambda x: (x * 1.25).clamp(0, 6) + 2.0,
    "row": lambda x: torch.relu(x * 1.25) + RAMP,
    "minimum and maximum": lambda x: (x * 1.25).minimum(FIVE).maximum(-ONE) + x,
    "product of matrices": lambda x: x @ MATRIX + 2.0,
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("name", SUMS)
def test_constants_after_other_ops_are_added(name: str, soc: str) -> None:
    (found,) = signal_to_noise(SUMS[name], (X,), soc, "8a8w", [])
    assert found > 34, found  # HTP-0393, HTP-0395, HTP-0224


def test_subtracting_a_constant_uses_its_negated_values() -> None:
    graph = made(SUMS["row"], (X,), WITH_FLOATS, "8a8w")
    difference = graph.ops[-1]
    less = graph.tensors[difference.inputs[1] or ""]
    assert difference.op == "ElementWiseSubtract" and less.quant is not None
    stored = np.asarray(less.data)
    assert np.abs(to_real(less, stored) + np.linspace(1, 2, 16)).max() <= less.quant.scale[0] / 2 * 1.001
    assert not [t for t in graph.tensors.values() if t.name + "_negative" == less.name]


#: HTP finalizes none of these forms in integers.
UNFINISHED: dict[str, tuple[Call, str]] = {
    "steps of 2 by 3": (
        lambda x: functional.conv2d(x, EACH, EACH_BIAS, (2, 3), groups=8),
        "8a8w",
    ),
    "steps and gaps": (
        lambda x: functional.conv2d(x, GAPS, GAPS_BIAS, (2, 2), dilation=(1, 2)),
        "16a8w",
    ),
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_forms_that_do_not_finalize_use_floats(name: str) -> None:
    function, scheme = UNFINISHED[name]
    told: list[str] = []
    (found,) = signal_to_noise(function, (IMAGE,), WITH_FLOATS, scheme, told)
    assert found > (34 if scheme == "8a8w" else 60), found
    assert [line for line in told if line.startswith("in floats: 1 ")]


@pytest.mark.parametrize("name", UNFINISHED)
def test_forms_that_do_not_finalize_are_rejected_without_floats(name: str) -> None:
    function, scheme = UNFINISHED[name]
    program = torch.export.export(Module(function), (IMAGE,))
    coverage = quantized_coverage(program, Target("HTP", WITHOUT, execution="emulator"), named(scheme))
    assert [row.verdict for row in coverage.rows] == ["rejected"]


def test_per_channel_slopes_have_8_bits_in_16a8w() -> None:
    def prelu(x: torch.Tensor) -> torch.Tensor:
        return functional.prelu(x, SLOPES)

    (found,) = signal_to_noise(prelu, (IMAGE,), WITHOUT, "16a8w", [])
    assert found > 50, found  # with slopes of 16 bits the graph is not finalized


def test_nearest_sampling_keeps_16_bit_pixel_values() -> None:
    def half_again(x: torch.Tensor) -> torch.Tensor:
        return functional.interpolate(x, size=(13, 5))

    (found,) = signal_to_noise(half_again, (IMAGE,), WITH_FLOATS, "16a8w", [])
    assert found > 85, found  # 44 dB where the result has an encoding of its own


def test_an_input_bias_is_not_converted_to_32_bits() -> None:
    inputs = (X[0], weights(16, 4), weights(4) * 20)
    (found,) = signal_to_noise(lambda x, w, b: torch.addmm(b, x, w), inputs, WITH_FLOATS, "16a8w", [])
    assert found > 45, found
    program = torch.export.export(Module(lambda x, w, b: torch.addmm(b, x, w)), inputs)
    told = {}
    for soc in (WITH_FLOATS, WITHOUT):
        coverage = quantized_coverage(program, Target("HTP", soc, execution="emulator"), named("16a8w"))
        told[soc] = coverage.complete
    assert told[WITH_FLOATS]


#: Ops for which the assumed ranges matter: the result of a clamp or a Softmax, moved or not.
ASSUMED: dict[str, Call] = {
    "clamp": lambda x: x.clamp(-1, 1),
    "softmax along rows": lambda x: x.softmax(1),
    "softmax and moves": lambda x: x.softmax(-1).transpose(1, 2).reshape(-1),
}


@pytest.mark.parametrize("soc", [WITHOUT, "SM8350"])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", ASSUMED)
def test_assumed_ranges_do_not_reject_what_compile_accepts(name: str, scheme: str, soc: str) -> None:
    program = torch.export.export(Module(ASSUMED[name]), (X,))
    target = Target("HTP", soc, execution="emulator")
    assert quantized_coverage(program, target, named(scheme)).complete
    (found,) = signal_to_noise(ASSUMED[name], (X,), soc, scheme, [])
    assert found > (35 if scheme == "8a8w" else 55), found


def test_a_quotient_wrong_in_integers_becomes_a_table() -> None:
    """HTP-0446, on a chip without floating point; division by a number is a function of x only."""
    told: list[str] = []
    x = torch.tensor([[7.0, -7.0, 5.5, -5.5]])
    (found,) = signal_to_noise(
        lambda x: torch.div(x, 2.0, rounding_mode="floor"), (x,), WITHOUT, "8a8w", told
    )
    assert found > 40 and any(line.startswith("as a table: ") and "HTP-0446" in line for line in told), told


def test_unavoidable_faults_are_reported() -> None:
    told: list[str] = []
    x, y = torch.tensor([[7.0, -7.0, 5.5, -5.5]]), torch.tensor([[2.0, 3.0, 2.5, 1.0]])
    signal_to_noise(lambda x, y: torch.div(x, y, rounding_mode="floor"), (x, y), WITHOUT, "8a8w", told)
    assert any(line.startswith("doubtful: ") and "HTP-0446" in line for line in told), told


CLAMPS: dict[str, Call] = {
    "hardtanh": lambda x: functional.hardtanh(x * 0.5),
    "inside a wider encoding": lambda x: torch.cat([(x * 1.25).clamp(-2, 3), x], -1),
    "one limit inside": lambda x: torch.cat([(x * 1.25).clamp(0, 6), x.abs()], -1),
    "equal limits": lambda x: x + (x * 2).clamp(1, 1),
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", CLAMPS)
def test_clamps_are_computed_in_integers(name: str, scheme: str, soc: str) -> None:
    told: list[str] = []
    (found,) = signal_to_noise(CLAMPS[name], (X,), soc, scheme, told)
    assert found > (35 if scheme == "8a8w" else 75) and not told, (found, told)


def test_depthwise_convolutions_stay_quantized_on_v68() -> None:
    """HTP-0450: three ops are wrong there directly after a Dequantize."""
    target = Target("HTP", "SM8350", execution="emulator")
    program = torch.export.export(Module(UNFINISHED["steps of 2 by 3"][0]), (IMAGE,))
    assert not quantized_coverage(program, target, named("8a8w")).complete


#: Depthwise filters that are wrong, or not finalized, as they are: (taps, steps, channels).
FEW_TAPS = {
    "one tap": ((1, 1), 1, 8),
    "one tap of three channels by steps of 2": ((1, 1), 2, 3),
    "a row of taps by steps of 2": ((1, 3), 2, 8),
    "two by two taps by steps of 2": ((2, 2), 2, 8),
    "three by five taps by steps of 2": ((3, 5), 2, 8),
}


@pytest.mark.parametrize("soc", [WITH_FLOATS, WITHOUT])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", FEW_TAPS)
def test_small_depthwise_filters_are_correct(name: str, scheme: str, soc: str) -> None:
    taps, steps, channels = FEW_TAPS[name]
    told: list[str] = []
    weight, bias = weights(channels, 1, *taps), weights(channels) * 5 + 1
    x = IMAGE[:, :channels].abs()

    def depthwise(x: torch.Tensor, w: torch.Tensor = weight, b: torch.Tensor = bias) -> torch.Tensor:
        return functional.conv2d(x, w, b, steps, groups=channels)

    (found,) = signal_to_noise(lambda x: depthwise(x), (x,), soc, scheme, told)
    assert found > 33 and not told, (found, told)


COMPARED: dict[str, Call] = {
    "equal": lambda x: x == 0.35,
    "greater": lambda x: x > -2.05,
    "less or equal": lambda x: x <= 1.95,
    "beyond the range": lambda x: x < 100.0,
}


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", COMPARED)
def test_compared_constants_use_the_tensors_encoding(name: str, scheme: str) -> None:
    (found,) = signal_to_noise(COMPARED[name], (X,), WITHOUT, scheme, [])
    assert found > 90, found  # every boolean is right
