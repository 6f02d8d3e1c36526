"""Errata are those of the graph that is compiled: after the passes, and after quantization."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.execute.compile.model import lowered
from opdb.execute.compile.quantized_check import quantized_coverage
from opdb.lower.quantize.recipe import named
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650")
#: ElementWisePower of floats returns wrong numbers; Lrn does not.
POWER = "HTP-0318"


class Responses(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.local_response_norm(x, 5)


class Power(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.abs().pow(0.75)


IMAGE = (torch.randn(1, 8, 8, 8),)


def errata(coverage: Any) -> list[str]:
    return [e.erratum for e in coverage.errata()]


def test_an_lrn_is_not_warned_of_for_its_power() -> None:
    coverage = check_program(export(Responses(), IMAGE), HTP)
    assert coverage.complete and coverage.warnings == 0 and errata(coverage) == []


def test_a_power_that_stays_is_warned_of() -> None:
    coverage = check_program(export(Power(), IMAGE), HTP)
    (row,) = (r for r in coverage.rows if r.warned)
    assert (row.target, row.warned) == ("aten.pow.Tensor_Scalar", (POWER,))
    assert [w["rule"] for w in row.warnings] == [POWER] and coverage.warnings == 1
    assert set(row.extra) == {POWER}


def test_the_errata_follow_the_passes() -> None:
    program = export(Responses(), IMAGE)
    fused, graph = lowered(program, HTP, "graph")
    assert graph is not None and [op.op for op in graph.ops if "Power" in op.op] == [] and errata(fused) == []
    chain, graph = lowered(program, HTP, "graph", without=("fuse-responses",))
    assert (
        graph is not None and "ElementWisePower" in [op.op for op in graph.ops] and errata(chain) == [POWER]
    )


def test_a_quantized_graph_has_not_the_errata_of_floats() -> None:
    program = export(Power(), IMAGE)
    coverage = quantized_coverage(program, HTP, named("8a8w"))
    assert POWER not in errata(coverage)
