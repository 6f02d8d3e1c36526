"""Ops that move stored integers between two encodings, on HTP's library: converted after the op, without floating point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = pytest.mark.vendor
OPS = torch.ops.quantized_decomposed
MOVES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Pad": lambda x: functional.pad(x, (1, 1), value=0.5),
    "Gather": lambda x: x[:, torch.tensor([2, 0])],
    "TopK": lambda x: x.topk(2)[0],
    "Tile": lambda x: x.repeat(2, 1, 1),
}
#: bits -> (scale, zero point) of x and of y.
ENCODINGS = {8: ((0.031, 100), (0.047, 140)), 16: ((0.031 / 256, 25600), (0.047 / 256, 36000))}


class Module(torch.nn.Module):
    def __init__(self, move: Callable[[torch.Tensor], torch.Tensor], bits: int) -> None:
        super().__init__()
        self.move, self.bits = move, bits

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        of_x, of_y = ENCODINGS[self.bits]
        return self.stored(self.move(self.stored(x, of_x)), of_y)

    def stored(self, x: torch.Tensor, encoding: tuple[float, int]) -> torch.Tensor:
        ends = (0, 2**self.bits - 1, torch.uint8 if self.bits == 8 else torch.uint16)
        made: torch.Tensor = OPS.quantize_per_tensor(x, *encoding, *ends)
        real: torch.Tensor = OPS.dequantize_per_tensor(made, *encoding, *ends)
        return real


@pytest.mark.parametrize("soc", ["QCM6490", "SM8650"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("op", MOVES)
def test_a_move_into_another_encoding_is_converted_afterwards(op: str, bits: int, soc: str) -> None:
    torch.manual_seed(0)
    module, x = Module(MOVES[op], bits), torch.randn(2, 5, 6)
    target = Target("HTP", soc, execution="emulator")
    coverage, graph = lowered(torch.export.export(module, (x,)), target, "g")
    assert graph is not None, [r for r in coverage.rows if r.verdict != "supported"]
    assert [o.op for o in graph.ops if o.op not in ("Reshape", "Transpose")] == [
        "Quantize",
        op,
        "Convert",
        "Dequantize",
    ]
    given: dict[str, Any] = {t.name: to_stored(t, x.numpy()) for t in graph.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(graph, given, None if soc == "QCM6490" else "fp16")
    assert result.stage == "done", result.log
    (y,) = graph.outputs
    off = np.abs(to_real(y, result.outputs[y.name]) - module(x).numpy()).max()
    assert off <= ENCODINGS[bits][1][0] * 3  # Quantize of 16 bits reads x in half precision


def test_ops_that_compute_new_values_are_not_converted() -> None:
    """A product in the steps of x would be clipped: v68 has none of two asymmetric 16-bit tensors."""
    program = torch.export.export(Module(lambda x: x @ x.transpose(1, 2), 16), (torch.randn(2, 5, 6),))
    coverage, graph = lowered(program, Target("HTP", "QCM6490"), "g")
    assert graph is None and [r.node for r in coverage.rows if r.verdict != "supported"] == ["matmul"]


def test_a_pad_value_beyond_the_range_of_x_is_not_clipped() -> None:
    module, x = Module(lambda x: functional.pad(x, (1, 1), value=5.5), 8), torch.randn(2, 5, 6)
    program = torch.export.export(module, (x,))
    coverage, graph = lowered(program, Target("HTP", "QCM6490"), "g")
    assert graph is None and [r.node for r in coverage.rows if r.verdict != "supported"] == ["pad"]
    _, graph = lowered(program, Target("HTP", "SM8650", execution="emulator"), "g")
    assert graph is not None and "Convert" not in {op.op for op in graph.ops}


@pytest.mark.parametrize("soc", ["QCM6490", "SM8650"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("value", [0.3, -0.9])
def test_a_pad_of_two_dimensions_stays_quantized(value: float, bits: int, soc: str) -> None:
    """HTP's own Pad of both writes the smallest number after the last dimension (HTP-0332)."""
    torch.manual_seed(0)
    module = Module(lambda x: functional.pad(x, (0, 2, 0, 1), value=value), bits)
    x, target = torch.randn(2, 5, 6), Target("HTP", soc, execution="emulator")
    _, graph = lowered(torch.export.export(module, (x,)), target, "g")
    assert graph is not None and "Concat" in {op.op for op in graph.ops}
    assert {t.dtype for t in graph.tensors.values() if t.type == "NATIVE"} == {f"uq{bits}"}
    given: dict[str, Any] = {t.name: to_stored(t, x.numpy()) for t in graph.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(graph, given, None if soc == "QCM6490" else "fp16")
    assert result.stage == "done", result.log
    (y,) = graph.outputs
    off = np.abs(to_real(y, result.outputs[y.name]) - module(x).numpy()).max()
    assert off <= ENCODINGS[bits][1][0] * 3  # Quantize of 16 bits reads x in half precision


@pytest.mark.parametrize("soc", ["QCM6490", "SM8650"])
def test_a_move_into_fewer_bits_is_converted(soc: str) -> None:
    """Recipes convert from 16 bits to 8 around a MatMul of v68."""
    torch.manual_seed(0)

    class Narrowing(Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            wide = self.stored(x, ENCODINGS[16][0]).permute(0, 2, 1)
            self.bits = 8
            made = self.stored(wide, ENCODINGS[8][1])
            self.bits = 16
            return made

    module, x, target = (
        Narrowing(MOVES["Pad"], 16),
        torch.randn(2, 5, 6),
        Target("HTP", soc, execution="emulator"),
    )
    _, graph = lowered(torch.export.export(module, (x,)), target, "g")
    assert graph is not None
    assert [o.op for o in graph.ops if o.op != "Reshape"] == [
        "Quantize",
        "Convert",
        "Transpose",
        "Dequantize",
    ]
    given: dict[str, Any] = {t.name: to_stored(t, x.numpy()) for t in graph.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(graph, given, None if soc == "QCM6490" else "fp16")
    assert result.stage == "done", result.log
    (y,) = graph.outputs
    off = np.abs(to_real(y, result.outputs[y.name]) - module(x).numpy()).max()
    assert off <= ENCODINGS[8][1][0] * 1.01
