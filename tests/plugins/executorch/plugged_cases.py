"""Effects of ``opdb.plugins.executorch.register()`` on ExecuTorch's flow; ``everything`` runs in the tests' child process."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

import opdb.plugins.executorch
from opdb.plugins.executorch import flow, quantize

SOC = "SM8650"


class Calls(nn.Module):
    """A module of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given)


class Gathers(nn.Module):
    """Two int64 constants: one is an index, the other is used in arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("index", torch.tensor([[2, 0, 1, 1]]))
        self.register_buffer("add", torch.tensor([[1, 2, 3, 4]]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.gather(x, 1, self.index) + self.add


X = (torch.linspace(-3, 3, 2 * 4 * 6).reshape(2, 4, 6),)
FLOATS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "softplus stays whole": (nn.Softplus(), X),
    "softmax over another dimension": (nn.Softmax(1), X),
    "indices leave as int64": (Calls(lambda x: torch.topk(x, 3)[1]), X),
    "values and indices": (Calls(lambda x: tuple(torch.topk(x, 3))), X),
    "one of two results": (Calls(lambda x: torch.topk(x, 3)[0]), X),
    "one of several pieces": (Calls(lambda x: torch.split(x, [1, 3], 1)[1]), X),
    "indices come as int64": (
        Calls(lambda x, i: torch.gather(x, 1, i)), (X[0][0], torch.tensor([[1, 0, 2], [3, 3, 0], [0, 1, 2], [5, 4, 3]])),
    ),
    "constants of int64": (Gathers(), (X[0][0, :1, :4].clone(),)),
    "a number of a line": (Calls(lambda x: x[2] * 2), (torch.randn(5),)),
    "Conv1d without a batch": (nn.Conv1d(4, 6, 3, padding=1), (torch.randn(4, 11),)),
    "ConvTranspose1d without a batch": (nn.ConvTranspose1d(4, 6, 3), (torch.randn(4, 11),)),
    "a bool becomes a float": (Calls(lambda x: (x > 0).float() * x), X),
    "an input that is written over": (Calls(torch.ops.aten.copy.default), (X[0], X[0] * 2)),
    "int64 that is written over": (
        Calls(lambda i, x: torch.ops.aten.copy.default(i, i + 1) * x), (torch.tensor([[3, 1], [2, 5]]), X[0][0, :2, :2].clone()),
    ),
}  # fmt: skip
QUANTIZED: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "softplus": (nn.Softplus(), X),
    "group_norm": (nn.GroupNorm(2, 4), (X[0][:1].reshape(1, 4, 3, 2),)),
    "sin": (Calls(torch.sin), X),
}


def everything() -> dict[str, Any]:
    return {
        "floats": {name: run(*case) for name, case in FLOATS.items()},
        "quantized": {
            f"{name} {recipe}": run(*QUANTIZED[name], recipe)
            for name, recipe in (
                ("softplus", "8a8w"),
                ("softplus", "16a8w"),
                ("group_norm", "8a8w"),
                ("sin", "8a8w"),
            )
        },
        "unmapped": unmapped(),
        "constants that leave": {
            "alone": run(Calls(lambda x: (torch.relu(x), torch.full_like(x, 3.0))), X),
            "beside its readers": run(Calls(beside_its_readers), X),
            "of two graphs": run(Calls(read_by_two_graphs), (X[0][0],)),
        },
        "whole results": whole_results(),
        "compared": compared(),
    }


def apart(x: torch.Tensor) -> torch.Tensor:
    """An operator without a builder in opdb or ExecuTorch, but with a CPU kernel."""
    return torch.masked_scatter(x, x > 0, x)


def beside_its_readers(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    halves = torch.full_like(x, 0.5)
    return torch.relu(x) * halves, halves


def read_by_two_graphs(x: torch.Tensor) -> torch.Tensor:
    """The constant reads the first graph, which reads it: extracting only the constant would create a cycle."""
    halves = torch.full_like(torch.relu(x), 0.5)
    return torch.exp(apart(torch.relu(x) * halves).sum() * halves * 0.01)


def run(module: nn.Module, inputs: tuple[torch.Tensor, ...], recipe: str | None = None) -> SimpleNamespace:
    """``wrong``: the largest difference from PyTorch: relative to the largest value for floats, in steps if quantized."""
    torch.manual_seed(0)
    opdb.plugins.executorch.register(execution="emulator")
    try:
        module = module.eval() if recipe is None else quantize.quantize(module.eval(), inputs, SOC, recipe)
        compiled = flow.compile_module(module, inputs, SOC)
        got = flow.run_pte(compiled.pte, inputs)
    finally:
        opdb.plugins.executorch.unregister()
    with torch.no_grad():
        wanted = module(*inputs)
    pairs = list(zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True))
    steps = [float(n.args[1]) for n in module.graph.nodes if "dequantize" in str(n.target)] if recipe else []
    unit = steps[-1] if recipe else max(float(w.double().abs().max()) for _, w in pairs)
    return SimpleNamespace(
        wrong=max(float((g.double() - w.double()).abs().max()) for g, w in pairs) / unit,
        same_types=all(g.dtype == w.dtype and g.shape == w.shape for g, w in pairs),
        left=compiled.not_delegated,
        forms=dict(compiled.forms),
        annotated=len(steps),
    )


def unmapped() -> SimpleNamespace:
    """An operator without any builder ends the export of ExecuTorch 1.4 with a KeyError."""
    module, inputs = Calls(lambda x: apart(torch.relu(x))), (X[0][0],)
    try:
        flow.compile_module(module, inputs, SOC)
        stock = ""
    except Exception as e:
        stock = f"{type(e).__name__}: {e}"
    opdb.plugins.executorch.register(execution="emulator")
    try:
        compiled = flow.compile_module(module, inputs, SOC)
        (got,) = flow.run_pte(compiled.pte, inputs)
    finally:
        opdb.plugins.executorch.unregister()
    return SimpleNamespace(
        stock=stock, left=compiled.not_delegated, reasons=dict(compiled.reasons), delegated=compiled.delegated,
        error=float((got - module(*inputs)).abs().max()),
    )  # fmt: skip


def whole_results() -> SimpleNamespace:
    """A node with int64 results ends ExecuTorch's export, whoever reads them."""
    module, inputs = nn.EmbeddingBag(10, 5), (torch.tensor([1, 4, 9, 2]), torch.tensor([0, 3]))
    try:
        flow.compile_module(module.eval(), inputs, SOC)
        stock = ""
    except Exception as e:
        stock = str(e.__cause__)
    opdb.plugins.executorch.register(execution="emulator")
    try:
        return SimpleNamespace(stock=stock, left=flow.compile_module(module, inputs, SOC).not_delegated)
    finally:
        opdb.plugins.executorch.unregister()


def compared() -> dict[str, tuple[str, ...]]:
    """ATen target -> differences between ExecuTorch's builder and opdb's; the compiled program is ExecuTorch's."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.SELU(), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5), nn.Softmax(-1)
    )
    opdb.plugins.executorch.register(keep_stock=True, execution="emulator")
    try:
        compiled = flow.compile_module(module.eval(), (torch.randn(1, 3, 8, 8),), SOC)
        found = opdb.plugins.executorch.differences()
    finally:
        opdb.plugins.executorch.unregister()
    assert compiled.not_delegated == ()
    return {d.target: tuple(map(str, d.lines)) for d in found}
