"""Intervals of results, and conversions to smaller integers: accepted if the numbers fit, else refused with a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.bounds import interval
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")
LEAST, MOST = -(2**31), 2**31 - 1
Function = Callable[[Tensor, Tensor, Tensor], Any]
#: x: [1, 20, 4] floats; n: [1, 20, 4] int32; u: the same in uint8.
INTERVALS: dict[str, tuple[Function, tuple[float, float]]] = {
    "argmax": (lambda x, n, u: x.argmax(1), (0, 19)),
    "argmax of all": (lambda x, n, u: x.argmax(), (0, 79)),
    "max": (lambda x, n, u: x.max(1)[1], (0, 19)),
    "max, its values": (lambda x, n, u: x.sigmoid().max(1)[0], (0, 1)),
    "topk": (lambda x, n, u: x.topk(2)[1] + 1, (1, 4)),
    "clamp": (lambda x, n, u: n.clamp(-3, 7), (-3, 7)),
    "clamp at one end": (lambda x, n, u: n.clamp(min=2), (2, MOST)),
    "clamp of what is known": (lambda x, n, u: u.clamp(min=3), (3, 255)),
    "relu6": (lambda x, n, u: torch.nn.functional.relu6(x) * 2 - 1, (-1, 11)),
    "hardtanh": (lambda x, n, u: torch.nn.functional.hardtanh(x), (-1, 1)),
    "abs": (lambda x, n, u: n.clamp(-3, 2).abs(), (0, 3)),
    "neg": (lambda x, n, u: n.clamp(-3, 2).neg(), (-2, 3)),
    "product": (lambda x, n, u: n.clamp(-3, 2) * n.clamp(-5, 1), (-10, 15)),
    "quotient": (lambda x, n, u: x.sigmoid() / -4, (-0.25, 0)),
    "floor_divide": (lambda x, n, u: n.clamp(-3, 7) // 2, (-2, 4)),
    "remainder": (lambda x, n, u: n % 10, (0, 9)),
    "bits": (lambda x, n, u: torch.bitwise_and(n, 15), (0, 15)),
    "sum": (lambda x, n, u: (x > 0).sum(1), (0, 20)),
    "where": (lambda x, n, u: torch.where(x > 0, u.to(torch.int32), -1), (-1, 255)),
    "masked_fill": (lambda x, n, u: x.tanh().masked_fill(x > 0, -9.0), (-9, 1)),
    "truths": (lambda x, n, u: (x > 0).to(torch.int64), (0, 1)),
    "uint8 wraps around": (lambda x, n, u: u + u, (0, 255)),
    "rounded": (lambda x, n, u: (x.sigmoid() * 2.5).round(), (0, 3)),
    "cut": (lambda x, n, u: (x.sigmoid() + 0.5).to(torch.int32), (0, 2)),
    "average with padding": (
        lambda x, n, u: torch.nn.functional.avg_pool2d(x.sigmoid() + 1, 3, 1, 1),
        (0, 2),
    ),
    "arange": (lambda x, n, u: torch.arange(2, 9, 3) + 0 * n[0, :3, 0], (2, 8)),
    "arange alone": (lambda x, n, u: torch.arange(9, 2, -3), (3, 9)),
    "nothing": (lambda x, n, u: n + 1, (LEAST, MOST)),
    "nothing of floats": (lambda x, n, u: x + 1, (-float("inf"), float("inf"))),
}


class Of(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, n: Tensor, u: Tensor) -> Any:
        return self.function(x, n, u)


def given() -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(1, 20, 4, generator=draw)
    n = torch.randint(-20, 20, (1, 20, 4), generator=draw, dtype=torch.int32)
    return x, n, torch.randint(0, 256, (1, 20, 4), generator=draw).to(torch.uint8)


@pytest.mark.parametrize("what", INTERVALS)
def test_an_interval_contains_the_operators_results(what: str) -> None:
    function, expected = INTERVALS[what]
    program = export(Of(function), given())
    (end,) = next(n for n in program.graph.nodes if n.op == "output").args[0]
    assert interval(end) == expected
    made = function(*given()).to(torch.float64)
    assert expected[0] <= made.min() and made.max() <= expected[1]


def test_intervals_of_long_chains_terminate() -> None:
    def doubled(x: Tensor, n: Tensor, u: Tensor) -> Tensor:
        for _ in range(200):
            x = torch.tanh(x) + torch.tanh(x)
            x = x + x
        return x

    program = export(Of(doubled), given())
    (end,) = next(n for n in program.graph.nodes if n.op == "output").args[0]
    assert interval(end) == (-4, 4)


TAKEN: dict[str, Function] = {
    "argmax": lambda x, n, u: x.argmax(1).to(torch.uint8),
    "max": lambda x, n, u: x.max(1)[1].to(torch.uint8),
    "topk": lambda x, n, u: x.topk(3, 1)[1].to(torch.uint8),
    "clamp": lambda x, n, u: n.clamp(0, 19).to(torch.uint8),
    "arithmetic": lambda x, n, u: (x.argmax(1) * 12 + 3).to(torch.uint8),
    "truths": lambda x, n, u: (x > 0).to(torch.int32).to(torch.uint8),
    "floats": lambda x, n, u: (x.sigmoid() * 100).to(torch.uint8),
    "floats, clamped": lambda x, n, u: (x * 9).clamp(0, 255).to(torch.uint8),
}


@pytest.fixture(scope="module")
def vendor() -> Iterator[VendorWorker]:
    with VendorWorker("HTP", HTP.soc) as worker:
        yield worker


@pytest.mark.vendor
@pytest.mark.parametrize("what", TAKEN)
def test_a_conversion_that_fits_is_a_cast(what: str, vendor: VendorWorker) -> None:
    model, inputs = Of(TAKEN[what]), given()
    coverage, graph = lowered(export(model, inputs), HTP, "graph")
    assert graph is not None, coverage.rows
    arrays = dict(zip("xnu", inputs, strict=True))
    result = vendor.run(graph, {t.name: arrays[t.name].numpy() for t in graph.inputs})
    assert result.stage == "done", (result.node, result.log[-5:])
    (found,) = result.outputs.values()
    expected = model(*inputs).numpy()
    assert found.dtype == np.uint8
    off = np.abs(found.astype(int) - expected.astype(int))
    assert off.max() <= ("floats" in what)  # fp16 may round up a value that PyTorch truncates
    assert (off > 0).mean() < 0.1


REFUSED: dict[str, tuple[Function, str]] = {
    "classes": (
        lambda x, n, u: (x.argmax(1) * 20).to(torch.uint8),
        "integers may not fit uint8, where QNN does not wrap around as PyTorch does: put .clamp(0, 255) before the conversion, "
        "or return the integers",
    ),
    "floats": (
        lambda x, n, u: x.to(torch.int8),
        "floats may not fit int8, where QNN does not wrap around as PyTorch does: put .clamp(-128, 127) before the conversion, "
        "or return the floats",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_conversion_that_may_overflow_is_refused(what: str) -> None:
    function, message = REFUSED[what]
    row = check_program(export(Of(function), given()), HTP).rows[-1]
    assert (row.verdict, [r["message"] for r in row.reasons]) == ("rejected", [message])
