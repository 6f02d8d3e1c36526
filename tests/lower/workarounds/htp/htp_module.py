"""Lowers a PyTorch function to HTP and runs it there, for tests of the graph and the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_part
from opdb.checks.verdicts import check_nodes
from opdb.core.graph import QnnGraph
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

HTP, V68 = (Target("HTP", soc, execution="emulator") for soc in ("SM8650", "SM8350"))


class Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


@dataclass(frozen=True)
class Ran:
    """``error``: the largest error relative to PyTorch's largest number."""

    graph: QnnGraph
    error: float


@dataclass(frozen=True)
class Htp:
    worker: VendorWorker
    target: Target = HTP

    def run(self, function: Callable[..., Tensor], inputs: tuple[Tensor, ...]) -> Ran:
        """Runs all of ``function``, which HTP must support."""
        program = Program(export(Call(function), inputs))
        coverage = check_nodes(program, self.target)
        assert coverage.complete
        part = build_part(program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs)
        given = {part.inputs[k]: x.numpy() for k, x in zip(program.inputs, inputs, strict=True)}
        answer = self.worker.run(part.graph, given)
        assert answer.verdict == "yes", answer.log
        got, wanted = torch.from_numpy(answer.outputs[part.outputs[program.outputs[0]]]), function(*inputs)
        return Ran(part.graph, float((got.reshape(wanted.shape) - wanted).abs().max() / wanted.abs().max()))
