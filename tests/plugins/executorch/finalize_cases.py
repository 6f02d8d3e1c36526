"""Float modules for SM8350, whose HTP (v68) cannot finalize some ops on 32-bit floats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn
from torch.nn import functional as f

import opdb.plugins.executorch
from opdb.plugins.executorch import flow

SOC = "SM8350"


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    image = torch.randn(1, 4, 5, 6)
    return {
        "GELU": (nn.Sequential(nn.Linear(6, 6), nn.GELU()), (image,)),
        "cumsum": (Calls(lambda x: torch.relu(x).cumsum(-1)), (image,)),
        "Pad of five dimensions": (Calls(lambda x: f.pad(x, (1, 1), value=0.5)), (image[None],)),
        "Pad at the ends": (Calls(lambda x: f.pad(x, (0, 1, 0, 2, 1, 3, 1, 2), value=1.5)), (image,)),
        "reflection": (Calls(lambda x: f.pad(x, (1, 2), mode="reflect")), (image[0],)),
        "PReLU": (nn.PReLU(4, 0.2), (image,)),
        "leaky_relu": (nn.LeakyReLU(0.05), (image,)),
        "floor_divide by a number": (Calls(lambda x: torch.floor_divide(x, 0.3)), (image,)),
        "where": (Calls(lambda x: torch.where(x > 0, x, -x)), (image,)),
    }


def outcomes() -> dict[str, Any]:
    """``left``: nodes on the CPU, with reasons; ``error``: the largest error against PyTorch."""
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return {name: _outcome(module.eval(), inputs) for name, (module, inputs) in cases().items()}
    finally:
        opdb.plugins.executorch.unregister()


def _outcome(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> Any:
    compiled = flow.compile_module(module, inputs, SOC)
    left = {n: "; ".join(r.message for r in compiled.reasons.get(n, ())) for n in compiled.not_delegated}
    (got,), wanted = flow.run_pte(compiled.pte, inputs), module(*inputs)
    return SimpleNamespace(left=left, error=float((got - wanted).abs().max().detach()))
