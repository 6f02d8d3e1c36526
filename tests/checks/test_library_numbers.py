"""Every mapped ATen target on the vendor's real libraries, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from every_module import BOUNDS, CASES, Case

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.qnn.backend import Backend

pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.slow]
PLACES = {"CPU": Target("CPU", execution="emulator"), "HTP": Target("HTP", "SM8650", execution="emulator")}
HELD = {torch.int64: torch.int32}  # QNN has no 64-bit indices
LARGEST = 65504  # of fp16, in which HTP computes: it and what is beyond stand for infinity (CPU's ReduceMax: -3.4e38)


@pytest.fixture(scope="module", params=PLACES)
def library(request: pytest.FixtureRequest, libraries: object) -> Iterator[Backend]:
    place = PLACES[request.param]
    with Backend.open(request.param, place.soc) as backend:
        yield backend


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_library_results_match_pytorch(case: Case, library: Backend) -> None:
    if library.name not in case.backends:
        pytest.skip("the mapping refuses it, see test_numbers.py")
    module, inputs = case.build(), case.inputs()
    program = Program(export(module, inputs))
    graph = build_graph(program, check_nodes(program, PLACES[library.name]).lowered)
    given = {
        t.name: x.to(HELD.get(x.dtype, x.dtype)).numpy().reshape(t.shape)
        for t, x in zip(graph.inputs, inputs, strict=True)
    }
    prepared = library.prepare(graph)
    try:
        made = prepared.execute(given)
    finally:
        prepared.close()
    with torch.no_grad():
        wanted = module(*inputs)
    wanted = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
    bound = case.off.get(library.name, BOUNDS[library.name])
    for t, truth in zip(graph.outputs, wanted, strict=True):
        got = made[t.name].reshape(truth.shape)
        if truth.is_floating_point():
            endless = np.isinf(truth.numpy()) & (np.abs(got) >= LARGEST)
            got = np.where(endless, np.copysign(np.inf, got), got)
            np.testing.assert_allclose(got, truth.numpy(), rtol=bound, atol=bound)
        else:
            assert np.array_equal(got, truth.numpy())
