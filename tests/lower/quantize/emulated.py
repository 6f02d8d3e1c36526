"""Runs a function quantized by --quantize on the vendor's emulation of a chip, next to PyTorch in floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.quantize import quantize
from opdb.runtime.qnn.real_numbers import to_real, to_stored

WITH_FLOATS, WITHOUT = "SM8650", "QCM6490"
#: No two of a row are equal, and none is closer than 0.05 to zero.
ROWS = np.random.default_rng(0).permuted(np.tile(np.arange(-60, 60), (16, 1)), axis=1)[:, :16]
X = torch.tensor(ROWS.reshape(2, 8, 16) / 10 + 0.05, dtype=torch.float32)


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def signal_to_noise(
    function: Callable[..., Any], inputs: tuple[Any, ...], soc: str, scheme: str, told: list[str]
) -> list[float]:
    """The ratio in dB for each result, with the inputs as calibration data."""
    target = Target("HTP", soc, execution="emulator")
    program = torch.export.export(Module(function), inputs)
    coverage, graph = lowered(program, target, "g", to_quantize=True)
    assert graph is not None, [r for r in coverage.rows if r.verdict != "supported"]
    given = {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}
    made = quantize(graph, [given], target=target, recipe=scheme, told=told)
    stored = {t.name: to_stored(t, given[t.name]) for t in made.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(made, stored)
    assert result.stage == "done", (result.node, result.log)
    want = function(*inputs)
    return list(compared(made, result.outputs, want if isinstance(want, tuple) else (want,)))


def compared(made: QnnGraph, outputs: Any, want: tuple[torch.Tensor, ...]) -> Any:
    for tensor, expected in zip(made.outputs, want, strict=True):
        reference = expected.numpy().astype(np.float64)
        found = to_real(tensor, outputs[tensor.name]).reshape(reference.shape)
        noise = max(float(((found - reference) ** 2).sum()), 1e-12 * reference.size)
        yield 10 * np.log10((reference**2).sum() / noise)
