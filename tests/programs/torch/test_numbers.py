"""Every mapped ATen target, from a real module to numbers: export, lower, QnnGraph, compared with PyTorch."""

from __future__ import annotations

import pytest
import torch
from every_module import CASES, Case, one_in
from interpreter import run

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes
from opdb.generated.builders import TARGETS
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Rejected

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PLACES = {"CPU": Target("CPU", execution="emulator"), "HTP": Target("HTP", "SM8650", execution="emulator")}


def outputs_of(case: Case, backend: str) -> None:
    module, inputs = case.build(), case.inputs()
    program = Program(export(module, inputs))
    coverage = check_nodes(program, PLACES[backend])
    if backend not in case.backends:
        assert not coverage.complete
        return
    assert coverage.complete, [r.reasons for r in coverage.rows if r.verdict != "supported"]
    graph = build_graph(program, coverage.lowered)
    expected = module(*inputs)
    expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    results = run(graph, inputs)
    assert len(results) == len(expected)
    for result, truth in zip(results, expected, strict=True):
        got = result.reshape(truth.shape).to(truth.dtype)
        torch.testing.assert_close(got, truth, rtol=case.apart, atol=case.apart)


@pytest.mark.parametrize("backend", PLACES)
@pytest.mark.parametrize("case", one_in(4))
def test_results_match_pytorch(case: Case, backend: str) -> None:
    outputs_of(case, backend)


def test_every_mapped_target_is_exercised() -> None:
    seen = set()
    for case in CASES:
        program = Program(export(case.build(), case.inputs()))
        for backend in case.backends:
            outcomes = check_nodes(program, PLACES[backend]).lowered
            seen |= {n.target for n in program.nodes if not isinstance(outcomes[n.name], Rejected)}
    assert set(TARGETS) - seen == set()
