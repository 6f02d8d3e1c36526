"""Modules quantized by ExecuTorch's quantizer with recipes that opdb's flow lacks, with opdb's builders; run in a child."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
from plugged_cases import Calls
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import opdb.plugins.executorch
from opdb.plugins.executorch import env, flow

SOC = "SM8650"
ODD = torch.tensor([1.1, float("inf"), -float("inf"), 0.0, float("nan"), 0.6])


def halves() -> nn.Module:
    """QNN has no 8-bit weights with half-precision data for filters of more than one element: they would stay on the CPU."""
    return nn.Sequential(
        nn.Conv2d(8, 8, 1), nn.ReLU(), nn.Conv2d(8, 6, 1, bias=False), nn.Linear(6, 4)
    ).half()


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], QuantDtype]] = {
    "weights of 2 bits": (nn.Linear(64, 32), (torch.rand(2, 6, 64),), QuantDtype.use_16a2w),
    "weights of 2 bits without a bias": (
        nn.Linear(64, 32, bias=False), (torch.rand(2, 6, 64),), QuantDtype.use_16a2w,
    ),
    "halves with weights of 8 bits": (halves(), (torch.rand(1, 8, 6, 6).half(),), QuantDtype.use_fp16a8w),
    "isinf": (Calls(torch.isinf), (ODD,), QuantDtype.use_8a8w),
    "isnan": (Calls(torch.isnan), (ODD,), QuantDtype.use_16a8w),
}  # fmt: skip


def quantized(module: nn.Module, inputs: tuple[torch.Tensor, ...], recipe: QuantDtype) -> Any:
    quantizer = QnnQuantizer(soc_model=env.chipset(SOC))
    quantizer.set_default_quant_config(recipe, is_conv_per_channel=True, is_linear_per_channel=True)
    prepared = prepare_pt2e(torch.export.export(module, inputs, strict=True).module(), quantizer)
    prepared(*inputs)
    return convert_pt2e(prepared)


def everything() -> dict[str, Any]:
    """``ranges``: of the integers stored for weights and biases; ``error``: against PyTorch's quantized module, relative to the
    largest value.
    """
    found: dict[str, Any] = {}
    opdb.plugins.executorch.register(execution="emulator")
    try:
        for name, (module, inputs, recipe) in CASES.items():
            torch.manual_seed(3)
            made = quantized(module.eval(), inputs, recipe)
            held = [n for n in made.graph.nodes if "dequantize_per_channel" in str(n.target)]
            precision = "quantized" if recipe == QuantDtype.use_16a2w else "fp16"
            compiled = flow.compile_module(made, inputs, SOC, precision)
            (got,), wanted = flow.run_pte(compiled.pte, inputs), made(*inputs)
            found[name] = SimpleNamespace(
                ranges=[n.args[4:6] for n in held],
                annotated=any("quantize" in str(n.target) for n in made.graph.nodes),
                left=compiled.not_delegated,
                forms=sorted(compiled.forms.values()),
                same=torch.equal(got, wanted),
                error=float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max()),
            )
    finally:
        opdb.plugins.executorch.unregister()
    return found
