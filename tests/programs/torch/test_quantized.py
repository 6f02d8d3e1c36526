"""Programs with quantize and dequantize nodes: their encodings in the graph, and results on Qualcomm's libraries, compared with PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from torch import Tensor, nn

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_program, read_and_check
from opdb.core.graph import QnnGraph
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.passes import optimize
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
PT2E = torch.ops.quantized_decomposed
PLACES = {"CPU": Target("CPU", execution="emulator"), "HTP": Target("HTP", "SM8650", execution="emulator")}
U8, S8, U16 = (0, 255, torch.uint8), (-128, 127, torch.int8), (0, 65535, torch.uint16)
IMAGE = torch.arange(192.0).reshape(1, 3, 8, 8).sin()
ROWS = torch.arange(24.0).reshape(4, 6).cos()


def seen(x: Tensor, scale: float = 0.02, zero: int = 120, kind: tuple[int, int, Any] = U8) -> Tensor:
    """``x`` quantized and dequantized, as a quantized module passes it on."""
    q = PT2E.quantize_per_tensor.default(x, scale, zero, *kind)
    return PT2E.dequantize_per_tensor.default(q, scale, zero, *kind)


class Weight(nn.Module):
    """An int8 weight with a scale for each row."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(len(shape))
        self.register_buffer("stored", torch.randint(-127, 128, shape, generator=generator).to(torch.int8))
        self.register_buffer("scales", torch.linspace(0.002, 0.006, shape[0]))
        self.register_buffer("zeros", torch.zeros(shape[0], dtype=torch.int64))

    def forward(self) -> Tensor:
        return PT2E.dequantize_per_channel.default(
            self.stored, self.scales, self.zeros, 0, *(-127, 127), torch.int8
        )


class Conv(nn.Module):
    """A convolution with a float bias, and a ReLU that shares its encoding."""

    def __init__(self, kind: tuple[int, int, Any] = U8, zero: int = 120, channels: int = 4) -> None:
        super().__init__()
        self.weight = Weight(channels, 3, 3, 3)
        self.bias = nn.Parameter(torch.linspace(0.2, -0.2, channels))
        self.kind, self.zero = kind, zero

    def forward(self, x: Tensor) -> Tensor:
        low, _, _ = self.kind
        x = seen(x, 0.01, self.zero, self.kind)
        return seen(torch.relu(torch.conv2d(x, self.weight(), self.bias)), 0.012, low, self.kind)


class Linear(nn.Module):
    """A 16-bit linear layer; ``moved``: with its weight transposed, as PyTorch decomposes it."""

    def __init__(self, moved: bool = False) -> None:
        super().__init__()
        self.weight, self.moved = Weight(5, 6), moved

    def forward(self, x: Tensor) -> Tensor:
        x = seen(x, 3e-5, 32768, U16)
        y = torch.mm(x, self.weight().t()) if self.moved else torch.nn.functional.linear(x, self.weight())
        return seen(y, 6e-5, 32768, U16)


class Sum(nn.Module):
    """A tensor with two readers, one of them in floats."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = seen(torch.tanh(seen(x)), 1 / 128, 128)
        return seen(y + y, 1 / 64, 128), torch.cumsum(y, 0)


class Twice(nn.Module):
    """One encoding directly after another."""

    def forward(self, x: Tensor) -> Tensor:
        return seen(seen(x * 2.0, 0.02, 120), 0.015, 128)


class Integers(nn.Module):
    """A module whose input and output are stored integers."""

    def forward(self, q: Tensor) -> Tensor:
        x = PT2E.dequantize_per_tensor.default(q, 0.02, 120, *U8)
        return PT2E.quantize_per_tensor.default(torch.relu(x), 0.02, 120, *U8)


CASES: dict[str, tuple[nn.Module, Tensor, float]] = {
    "conv, uint8": (Conv(), IMAGE, 0.012),
    "conv to one channel": (Conv(channels=1), IMAGE, 0.012),
    "conv, int8": (Conv(S8, -8), IMAGE, 0.012),
    "linear, uint16": (Linear(), ROWS, 6e-5),
    "linear of a moved weight": (Linear(moved=True), ROWS, 1e-3),  # in halves: MatMul takes one scale
    "sum": (Sum(), ROWS, 1 / 64),
    "twice": (Twice(), ROWS, 0.015),
}


def lowered(module: nn.Module, x: Tensor, target: Target) -> tuple[QnnGraph, Coverage]:
    program, coverage = read_and_check(export(module, (x,)), target)
    assert coverage.complete, [(r.node, r.reasons) for r in coverage.rows if r.verdict != "supported"]
    return optimize(build_graph(program, coverage.lowered, "quantized"), target).graph, coverage


@pytest.fixture(scope="module", params=PLACES)
def worker(request: pytest.FixtureRequest) -> Any:
    target = PLACES[request.param]
    with VendorWorker(target.backend or "", target.soc) as made:
        yield target, made


@pytest.mark.parametrize("name", CASES)
def test_results_match_the_quantized_module(worker: Any, name: str) -> None:
    """Results are within one step of the output's encoding: the libraries sum integers, PyTorch floats."""
    target, vendor = worker
    module, x, step = CASES[name]
    graph, _ = lowered(module, x, target)
    result = vendor.run(graph, {graph.inputs[0].name: to_stored(graph.inputs[0], x.numpy())})
    assert result.stage == "done", (result.node, result.log[-5:])
    wanted = module(x)
    for tensor, want in zip(graph.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        got = to_real(tensor, result.outputs[tensor.name]).reshape(want.shape)
        np.testing.assert_allclose(got, want.detach().numpy(), atol=1.01 * step)


def test_encodings_come_from_the_nodes() -> None:
    """Inputs and outputs are floats: one Quantize, one Dequantize, and everything between is quantized."""
    graph, coverage = lowered(Conv(), IMAGE, PLACES["HTP"])
    ops = Counter(op.op for op in graph.ops)
    assert (ops["Quantize"], ops["Dequantize"], ops["Conv2d"]) == (1, 1, 1)
    conv = next(op for op in graph.ops if op.op == "Conv2d")
    x, weight, bias = (graph.tensors[n] for n in conv.inputs if n)
    y = graph.tensors[conv.outputs[0]]
    assert (x.dtype, weight.dtype, bias.dtype, y.dtype) == ("uq8", "sq8", "sq32", "uq8")
    assert x.quant and (x.quant.scale, x.quant.offset) == ((0.01,), (-120,))
    assert (
        weight.quant and weight.quant.axis == 3 and len(weight.quant.scale) == 4
    )  # [height, width, in, out]
    # the values that ReLU clips are already clipped by the encoding before it
    assert y.quant and (y.quant.scale, y.quant.offset) == ((0.012,), (0,))
    assert all(r.ops != ("Quantize", "Dequantize") for r in coverage.rows)


def test_stored_integers_can_be_inputs_and_outputs() -> None:
    stored = torch.arange(24, dtype=torch.uint8).reshape(4, 6) * 10
    graph, coverage = lowered(Integers(), stored, PLACES["HTP"])
    assert [op.op for op in graph.ops] == ["Relu"] and len(coverage.rows) == 1
    assert {t.dtype for t in (*graph.inputs, *graph.outputs)} == {"uq8"}


def test_a_node_without_a_quantized_form_computes_in_floats() -> None:
    """CPU has no convolution of signed activations: the numbers are the same, and the row has the reason."""
    graph, _ = lowered(Conv(S8, -8), IMAGE, PLACES["CPU"])
    conv = next(op for op in graph.ops if op.op == "Conv2d")
    assert {graph.tensors[n].dtype for n in conv.inputs if n} == {"f32"}


def test_integers_with_other_readers_get_no_encoding() -> None:
    """An input of bytes is also read as integers, and a quantize node's integers are added to."""

    class Both(nn.Module):
        def forward(self, q: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            real = PT2E.dequantize_per_tensor.default(q, 0.02, 120, *U8)
            stored = PT2E.quantize_per_tensor.default(torch.relu(x), 0.02, 120, *U8)
            return real + q.to(torch.float32), stored + 1

    program = Program(export(Both(), (torch.zeros(4, 6, dtype=torch.uint8), ROWS)))
    assert not program.encodings.of


def test_a_dynamic_encoding_is_a_host_row() -> None:
    class Dynamic(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            scale = x.abs().amax() / 127
            zero = torch.zeros((), dtype=torch.int64)
            return PT2E.quantize_per_tensor.tensor(x, scale, zero, *S8)

    coverage = check_program(export(Dynamic(), (ROWS,)), PLACES["HTP"])
    rows = {r.target: r for r in coverage.rows}
    assert rows["quantized_decomposed.quantize_per_tensor.tensor"].verdict == "host"


def test_nodes_can_be_forced_into_floats() -> None:
    exported = export(Linear(), (ROWS,))
    program = Program(exported)
    assert "linear" not in program.in_floats and ("linear", 0) in program.encodings.of
    again = program.with_floats({"linear"})
    assert ("linear", 0) not in again.encodings.of
    assert {n.target for n in again.nodes} >= {"qnn.Quantize.default", "qnn.Dequantize.default"}
