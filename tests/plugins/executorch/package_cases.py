"""Ops of op packages in ExecuTorch's flow, on the emulated HTP; run in child processes of the tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import opdb.programs.torch_ops  # noqa: F401  defines the operators
from opdb.lower import select
from opdb.plugins.executorch import flow, op_packages, registration
from opdb.runtime.forms import Lowered, NodeView, Rejected

PAD = "qnn.Pad.default"


class Custom(torch.nn.Module):
    """An operator of a custom package before an ATen operator."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([-3.0, 0.5, 1e-3, 7.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.OpdbCustom.DequantizeAdd(x, self.bias, scale=0.1)
        return torch.relu(y)


class Padded(torch.nn.Module):
    """A string and rows of numbers as parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.ops.qnn.Pad(x, scheme="MIRROR_REFLECT", pad_amount=[0, 0, 1, 2, 3, 0])
        return y


def custom(library: Path) -> dict[str, Any]:
    registration.register(execution="emulator")
    return _run(Custom(), torch.randint(-128, 128, (2, 5, 4), dtype=torch.int8), library)


def padded(library: Path, package: str) -> dict[str, Any]:
    """QNN's Pad from a package."""

    def lower(view: NodeView, target: Any) -> Lowered | Rejected:
        lowered = select.lower(view, target)
        if isinstance(lowered, Rejected):
            return lowered
        return replace(lowered, ops=tuple(replace(op, package=package) for op in lowered.ops))

    registration.register(lower=lower, targets=[PAD], preserve_ops=())
    return _run(Padded(), torch.randn(2, 3, 4), library)


def rows(library: Path) -> list[dict[str, Any]]:
    made = op_packages.options([library]).op_package_infos
    made += op_packages.rows("/data/libQnnOpdbCustom.so", "OpdbCustom", ["DequantizeAdd"], "P", "Hexagon v75")
    return [{k: getattr(v, "name", v) for k, v in vars(row).items()} for row in made]


def _run(model: torch.nn.Module, x: torch.Tensor, library: Path) -> dict[str, Any]:
    compiled = flow.compile_module(model, (x,), "SM8650", op_packages=[library])
    (got,) = flow.run_pte(compiled.pte, (x,))
    return {
        "delegated": compiled.delegated,
        "rest": compiled.not_delegated,
        "error": float((got - model(x)).abs().max()),
    }
