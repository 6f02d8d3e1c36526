"""Modules that ExecuTorch 1.5, unlike 1.4, quantizes and lowers, with opdb's builders; run in the tests' child process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from plugged_cases import Calls
from torch import nn

import opdb.plugins.executorch
from opdb.plugins.executorch import env, flow, quantize

SOC = "SM8650"
X = torch.linspace(-3, 3, 2 * 3 * 4).reshape(2, 3, 4)
ROWS = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
INDEX = torch.tensor([[[0, 1, 2, 0]], [[2, 2, 1, 0]]])
VALUES = torch.linspace(0.5, 2, 8).reshape(2, 1, 4)


class Hadamard(nn.Linear):
    """A rotation that quantizers insert before a layer; RecomposeHadamard makes one op of it."""

    def __init__(self) -> None:
        super().__init__(64, 64, bias=False)
        rows = torch.ones(1, 1)
        while len(rows) < 64:
            rows = torch.cat([torch.cat([rows, rows], 1), torch.cat([rows, -rows], 1)])
        self.weight = nn.Parameter(rows / 8)


def scattered(call: Any) -> nn.Module:
    return Calls(lambda x, values: call(x, INDEX, values))


CASES: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...], str | None]] = {
    "hadamard": (Hadamard(), (ROWS,), None),
    "hadamard 16a8w": (Hadamard(), (ROWS,), "16a8w"),
    "sort": (Calls(lambda x: torch.sort(x, 1)[0]), (X,), None),
    "sort 8a8w": (Calls(lambda x: torch.sort(x, 1)[0]), (X,), "8a8w"),
    "places of sort": (Calls(lambda x: torch.sort(x, -1, descending=True)[1]), (X,), None),
    "scatter of a number 8a8w": (Calls(lambda x: x.scatter(1, INDEX, 1.5)), (X,), "8a8w"),
    "scatter_add 8a8w": (scattered(lambda x, i, v: x.scatter_add(1, i, v)), (X, VALUES), "8a8w"),
    "scatter_reduce of sums 8a8w": (
        scattered(lambda x, i, v: x.scatter_reduce(1, i, v, "sum")), (X, VALUES), "8a8w",
    ),
    "scatter_reduce of products 8a8w": (
        scattered(lambda x, i, v: x.scatter_reduce(1, i, v, "prod")), (X, VALUES), "8a8w",
    ),
}  # fmt: skip


def everything() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (module, inputs, recipe) in CASES.items():
        opdb.plugins.executorch.register(execution="emulator")
        try:
            module = (
                module.eval() if recipe is None else quantize.quantize(module.eval(), inputs, SOC, recipe)
            )
            found[name] = outcome(module, inputs)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
        finally:
            opdb.plugins.executorch.unregister()
    found["trained convolution"] = trained()
    return found


def outcome(module: nn.Module, inputs: tuple[torch.Tensor, ...]) -> SimpleNamespace:
    """``steps``: the largest error in steps of a quantized result, or relative to the largest float; ``bound``: its limit."""
    compiled = flow.compile_module(module, inputs, SOC)
    (got,) = flow.run_pte(compiled.pte, inputs)
    with torch.no_grad():
        wanted = module(*inputs)
    scales = (
        [float(n.args[1]) for n in module.graph.nodes if "dequantize_per_tensor" in str(n.target)]
        if hasattr(module, "graph")
        else []
    )
    unit = scales[-1] if scales else float(wanted.double().abs().max())
    return SimpleNamespace(
        left=compiled.not_delegated,
        delegated=compiled.delegated,
        steps=float((got.double() - wanted.double()).abs().max()) / unit,
        bound=3.01 if scales else 5e-3,
    )


def trained() -> Any:
    """A convolution and its batch norm, trained with the quantizer's fake quantization, which 1.5 treats as one."""
    from executorch.backends.qualcomm.quantizer.quantizer import QnnQuantizer, QuantDtype
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
    from torchao.quantization.pt2e import allow_exported_model_train_eval, move_exported_model_to_eval
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    torch.manual_seed(0)
    inputs = (torch.randn(2, 3, 8, 8),)
    layer = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    opdb.plugins.executorch.register(execution="emulator")
    try:
        quantizer = QnnQuantizer(backend=QnnExecuTorchBackendType.kHtpBackend, soc_model=env.chipset(SOC))
        quantizer.set_default_quant_config(QuantDtype.use_8a8w, is_qat=True, is_conv_per_channel=True)
        prepared = prepare_qat_pt2e(torch.export.export(layer, inputs, strict=True).module(), quantizer)
        allow_exported_model_train_eval(prepared)
        prepared.train()
        for _ in range(3):
            prepared(*inputs).square().mean().backward()
        move_exported_model_to_eval(prepared)
        prepared(*inputs)
        return outcome(convert_pt2e(prepared), inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        opdb.plugins.executorch.unregister()
