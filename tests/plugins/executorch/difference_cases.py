"""Builders with a planted fault beside ExecuTorch's, and programs of both; ``everything`` runs in a child process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from executorch_differences import run, worker
from plugged_cases import SOC
from torch import nn

import opdb.lower.select
import opdb.plugins.executorch
from opdb.catalog.targets.target import Target
from opdb.core.op_config import ParamConfig
from opdb.plugins.executorch import env
from opdb.plugins.executorch.edge import edge_program
from opdb.plugins.executorch.tools.differences import of_program
from opdb.runtime.forms import Lowered, LoweredOp, Reason, Rejected

TARGET = Target("HTP", SOC, "2.47", execution="emulator")
X, Y = torch.linspace(-2, 2, 24).reshape(2, 3, 4), torch.linspace(1, 3, 24).reshape(2, 3, 4)


class Module(nn.Module):
    """Both builders give the same ops for each operator here."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        nn.init.constant_(self.norm.bias, 0.25)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.norm(torch.cat([x, y], 1))
        return made


def _params(op: LoweredOp, **changed: ParamConfig | None) -> LoweredOp:
    given = [changed.get(p.name, p) for p in op.params]
    return replace(op, params=tuple(p for p in given if p is not None))


def _swapped(op: LoweredOp) -> LoweredOp:
    return replace(op, inputs=(*op.inputs[:-2], op.inputs[-1], op.inputs[-2]))


#: Name -> the fault, as a change of each op.
FAULTS: dict[str, Callable[[LoweredOp], LoweredOp | None]] = {
    "none": lambda op: op,
    "another op": lambda op: replace(op, op="Pack") if op.op == "Concat" else op,
    "inputs swapped": _swapped,
    "a value": lambda op: _params(
        op, axis=ParamConfig("axis", "u32", 2), epsilon=ParamConfig("epsilon", "f32", 1e-4)
    ),
    "a type": lambda op: _params(op, axis=ParamConfig("axis", "i32", 1)),
    "a parameter less": lambda op: _params(op, axis=None, axes=None),
    "an input less": lambda op: replace(op, inputs=op.inputs[:-1]),
    "declined": lambda op: None,
}


#: Programs with differences and numbers known to the tests.
PROGRAMS = ("relu", "linear_rank_3", "logical_not_of_1", "elu_scaled")


def everything(folder: str) -> dict[str, Any]:
    """``tampered``: fault -> edge operator -> the differences.  ``records``, ``proofs``: of PROGRAMS."""
    tampered = {name: _found(change) for name, change in FAULTS.items()}
    records, proofs = Path(folder) / "records.jsonl", Path(folder) / "proofs.jsonl"
    worker.record([(name, "fp16") for name in PROGRAMS], str(records))
    worker.prove(run.to_prove(list(run.read(records).values()), []), str(proofs))
    return {"tampered": tampered, **{p.stem: list(run.read(p).values()) for p in (records, proofs)}}


def _found(change: Callable[[LoweredOp], LoweredOp | None]) -> dict[str, list[str]]:
    def lower(view: Any, target: Any) -> Lowered | Rejected:
        lowered = opdb.lower.select.lower(view, target)
        assert isinstance(lowered, Lowered)
        ops = [change(op) for op in lowered.ops]
        if None in ops:
            return Rejected((Reason("Concat", "Concat.C1", "a reason"),))
        return replace(lowered, ops=tuple(op for op in ops if op))

    opdb.plugins.executorch.register(keep_stock=True, lower=lower, target=TARGET)
    try:
        differences = of_program(edge_program(nn.Module.eval(Module()), (X, Y), env.chipset(SOC)).whole)
    finally:
        opdb.plugins.executorch.unregister()
    return {d.edge: [str(line) for line in d.lines] for d in differences}
