"""Float modules for SM8350, whose HTP (v68) finalizes no graph of some ops on 32-bit floats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn

import opdb.executorch
from opdb.executorch import flow

SOC = "SM8350"


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    image = torch.randn(1, 4, 5, 6)
    return {
        "GELU": (nn.Sequential(nn.Linear(6, 6), nn.GELU()), (image,)),
        "cumsum": (Calls(lambda x: torch.relu(x).cumsum(-1)), (image,)),
        "where": (Calls(lambda x: torch.where(x > 0, x, -x)), (image,)),
    }


def outcomes() -> dict[str, Any]:
    """``left``: nodes on the CPU, with reasons; ``error``: the largest, against PyTorch."""
    opdb.executorch.register()
    try:
        return {name: _outcome(module.eval(), inputs) for name, (module, inputs) in cases().items()}
    finally:
        opdb.executorch.unregister()


def _outcome(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    compiled = flow.compile_module(module, inputs, SOC)
    left = {n: "; ".join(r.message for r in compiled.reasons.get(n, ())) for n in compiled.not_delegated}
    (got,), wanted = flow.run_pte(compiled.pte, inputs), module(*inputs)
    return SimpleNamespace(left=left, error=float((got - wanted).abs().max().detach()))
