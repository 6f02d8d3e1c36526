"""Permutations of six and more dimensions become ones of at most five, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import read_and_check
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export
from opdb.programs.torch.ranks import MOST, in_fewer_dimensions, permutations

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")


class Windows(torch.nn.Module):
    """Swin's windows, and the image reassembled from them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 16)
        y = torch.relu(y)
        return y.view(1, 2, 2, 4, 4, 16).transpose(2, 3).flatten(3, 4).flatten(1, 2).reshape(1, 8, 8, 16)


class Shuffle(torch.nn.Module):
    """Moves channels to pixels of an image, and of a volume, which takes eight dimensions."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.view(1, 3, 2, 2, 4, 4).permute(0, 1, 4, 2, 5, 3).reshape(1, 3, 8, 8)
        z = x.view(1, 3, 2, 2, 2, 2, 2, 2).permute(0, 1, 5, 2, 6, 3, 7, 4).reshape(1, 3, 4, 4, 4)
        return y, z * 2


class OnesOfEinsum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.unsqueeze(0).unsqueeze(3).unsqueeze(4).unsqueeze(5).permute(1, 3, 0, 2, 4, 5)
        return y.reshape(4, 1, 6).transpose(0, 2)


CASES = [
    (Windows(), torch.sin(torch.arange(1024.0)).reshape(1, 8, 8, 16)),
    (Shuffle(), torch.sin(torch.arange(192.0)).reshape(1, 12, 4, 4)),
    (OnesOfEinsum(), torch.sin(torch.arange(24.0)).reshape(4, 6)),
]


@given(
    st.integers(2, 9).flatmap(
        lambda n: st.tuples(st.permutations(range(n)), st.lists(st.integers(1, 3), min_size=n, max_size=n))
    )
)
@settings(max_examples=300, deadline=None)
def test_any_permutation_can_be_split(case: tuple[list[int], list[int]]) -> None:
    order, shape = case
    x = np.arange(np.prod(shape)).reshape(shape)
    first, steps = permutations(shape, order)
    y = x.reshape(first)
    for sizes, moved in steps:
        assert len(sizes) <= MOST
        y = y.reshape(sizes).transpose(moved)
    assert np.array_equal(y.ravel(), x.transpose(order).ravel())


@pytest.mark.parametrize(("module", "x"), CASES, ids=[type(m).__name__ for m, _ in CASES])
def test_the_rewritten_program_matches_the_module(module: torch.nn.Module, x: torch.Tensor) -> None:
    program = export(module, (x,))
    made = in_fewer_dimensions(program)
    assert all(n.meta["val"].dim() <= MOST for n in made.graph.nodes if n.op == "call_function")
    got, wanted = made.module()(x), module(x)
    torch.testing.assert_close(got, wanted, rtol=0, atol=0)
    assert any(
        len(n.meta["val"].shape) > MOST for n in program.graph.nodes if n.op == "call_function"
    )  # the given program is unchanged


@pytest.mark.vendor
@pytest.mark.parametrize(("module", "x"), CASES, ids=[type(m).__name__ for m, _ in CASES])
def test_htp_runs_the_rewritten_program(module: torch.nn.Module, x: torch.Tensor) -> None:
    program, coverage = read_and_check(export(module, (x,)), HTP)
    assert coverage.complete and coverage.partitions <= 2
    graph = build_graph(program, coverage.lowered)
    with VendorWorker("HTP", "SM8650") as worker:
        made = worker.run(graph, {graph.inputs[0].name: x.numpy()})
    assert made.outputs is not None, made
    wanted = module(x)
    for tensor, want in zip(graph.outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(made.outputs[tensor.name], want.numpy(), atol=2e-3)


def test_a_6d_tensor_with_other_readers_is_unchanged() -> None:
    class Read(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.view(2, 2, 2, 2, 2, 2).permute(5, 4, 3, 2, 1, 0)).reshape(64)

    program = export(Read(), (torch.ones(64),))
    assert in_fewer_dimensions(program) is program
