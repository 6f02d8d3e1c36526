"""Quantized modules whose nodes opdb's builders once left to the CPU, or computed wrong, on SM8650's emulation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn
from torch.nn import functional as f

import opdb.executorch
from opdb.executorch import flow

SOC = "SM8650"


def cases() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    torch.manual_seed(0)
    image, positive = torch.randn(1, 2, 4, 4), torch.rand(1, 2, 4, 4) + 0.1
    return {
        "clamp": (Calls(lambda x: x.clamp(-1, 1)), (image,)),
        "clamp_min below zero": (Calls(lambda x: x.clamp_min(-1)), (image,)),
        "div": (Calls(torch.div), (image, positive)),
        "floor_divide": (Calls(torch.floor_divide), (image, positive)),
        "where": (Calls(lambda x: torch.where(x > 0, x, -x)), (image,)),
        "leaky_relu": (nn.LeakyReLU(0.05), (image,)),
        "PReLU of channels": (nn.PReLU(2, 0.2), (image,)),
        "log_softmax of channels": (nn.LogSoftmax(1), (image,)),
        "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(2), (image,)),
        "AdaptiveMaxPool2d 4 to 3": (nn.AdaptiveMaxPool2d(3), (image,)),
        "pad beyond the range of the input": (Calls(lambda x: f.pad(x, (1, 1), value=4.5)), (image[0, 0],)),
        "pad at the end": (Calls(lambda x: f.pad(x, (0, 2), value=0.5)), (image[0, 0],)),
    }


def outcomes() -> dict[str, Any]:
    opdb.executorch.register()
    try:
        return {name: _outcome(module.eval(), inputs) for name, (module, inputs) in cases().items()}
    finally:
        opdb.executorch.unregister()


def _outcome(module: Any, inputs: tuple[torch.Tensor, ...]) -> Any:
    """``steps``: the largest error in steps of the output's scale; ``left``: nodes on the CPU, with reasons."""
    quantized = flow.quantize(module, inputs, SOC, "8a8w")
    compiled = flow.compile_module(quantized, inputs, SOC)
    left = {n: "; ".join(r.message for r in compiled.reasons.get(n, ())) for n in compiled.not_delegated}
    last = next(n for n in quantized.graph.nodes if n.op == "output").args[0]
    scale = (last[0] if isinstance(last, (list, tuple)) else last).args[1]
    (got,), wanted = flow.run_pte(compiled.pte, inputs), quantized(*inputs)
    return SimpleNamespace(steps=float((got - wanted).abs().max()) / scale, left=left)
