"""torch.ops.qnn.* in ExecuTorch's flow: fully delegated, and matching PyTorch's own operators."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import opdb.programs.torch_ops  # noqa: F401  defines the operators
from opdb.catalog.targets.target import Target
from opdb.plugins.executorch import env, flow, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


def test_qnn_operators_are_delegated_and_right(environment: env.Environment) -> None:
    found = process.call(
        "qnn_cases:outcomes", environment=environment, path=[Path(__file__).parent], timeout=600
    )
    assert {name: got.left for name, got in found.items() if got.left} == {}
    assert {name: got.errors for name, got in found.items() if max(got.errors) > 5e-3} == {}
    taken = {form for got in found.values() for form in got.forms}
    assert taken >= {
        "BatchToSpace", "Batchnorm", "DepthWiseConv2d", "ElementWiseSquaredDifference", "ExtractPatches", "GatherNd",
        "Gru", "L2Norm", "Lrn", "Lstm", "OneHot", "Relu1", "SpaceToBatch",
    }  # fmt: skip


class L2Norm(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.qnn.L2Norm(x, axis=1)  # type: ignore[no-any-return]


def test_a_program_with_qnn_operators_compiles_in_a_child(environment: env.Environment) -> None:
    program = torch.export.export(L2Norm(), (torch.ones(2, 4),))
    plugin = flow.Plugin("opdb.lower.select:lower", Target("HTP", "SM8650", execution="emulator"))
    compiled = flow.compile_program(program, "SM8650", environment=environment, plugin=plugin)
    assert (compiled.delegated, compiled.not_delegated) == (("qnn_l2norm_default",), ())
