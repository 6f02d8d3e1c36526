"""8-bit nodes computed in 16 bits between Converts, and ascending sort: values on chips without floating point, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.quantize import quantize
from opdb.runtime.qnn.real_numbers import limits, to_real, to_stored

pytestmark = [pytest.mark.vendor, pytest.mark.torch]
CHIPS = ("QCM6490", "SM8635")


class Module(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def compared(
    function: Callable[..., Any], inputs: tuple[torch.Tensor, ...], soc: str, scheme: str
) -> tuple[Any, Any, float, list[str]]:
    """Returns the emulation's result, PyTorch's result for the stored inputs, one step of the result, and the messages.

    PyTorch's numbers are clipped to the range of the result's encoding.
    """
    target, told = Target("HTP", soc, execution="emulator"), list[str]()
    _, graph = lowered(torch.export.export(Module(function), inputs), target, "g", to_quantize=True)
    assert graph is not None
    given = {t.name: x.numpy() for t, x in zip(graph.inputs, inputs, strict=True)}
    made = quantize(graph, [given], target=target, recipe=scheme, told=told)
    stored = {t.name: to_stored(t, given[t.name]) for t in made.inputs}
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(made, stored)
    assert result.stage == "done", (result.node, result.log)
    real = [torch.from_numpy(to_real(t, stored[t.name]).astype(np.float32)) for t in made.inputs]
    (y,) = made.outputs
    assert y.quant is not None
    want = np.clip(function(*real).numpy(), *to_real(y, np.array(limits(y.dtype))))
    return to_real(y, result.outputs[y.name]).reshape(want.shape), want, y.quant.scale[0], told


def numbers(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3)) * 2 - 0.8


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_8_bit_sums_along_all_axes_are_right(axis: int, batch: int, soc: str) -> None:
    """HTP-0330 and HTP-0476: none is right in 8 bits."""
    found, want, step, told = compared(lambda x: x.cumsum(axis), (numbers(batch, 8, 16),), soc, "8a8w")
    assert [line.partition(" Cum")[0] for line in told] == ["in 16 bits: 1"]
    np.testing.assert_allclose(found, want, atol=0.7 * step)


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_8_bit_grid_samples_are_right(padding: str, batch: int, soc: str) -> None:
    """HTP-0334: GridSample in 8 bits is inexact.  The sampled positions are exact in 8 bits."""
    grid = torch.rand(batch, 10, 12, 2, generator=torch.Generator().manual_seed(1)) * 1.8 - 0.9

    def function(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, places, padding_mode=padding, align_corners=False)

    found, want, step, told = compared(function, (numbers(batch, 3, 16, 16), grid), soc, "8a8w")
    assert [line.partition(" Grid")[0] for line in told] == ["in 16 bits: 1"]
    np.testing.assert_allclose(found, want, atol=0.7 * step)


SORTED: dict[str, Callable[..., Any]] = {
    "ascending": lambda x: x.sort(-1)[0],
    "descending": lambda x: x.sort(-1, descending=True)[0],
    "along rows": lambda x: x.sort(1)[0],
    "the smallest": lambda x: x.topk(3, largest=False)[0],
}


@pytest.mark.parametrize("soc", [*CHIPS, "SM8650"])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", SORTED)
def test_sorted_values_are_exact(name: str, scheme: str, soc: str) -> None:
    found, want, step, told = compared(SORTED[name], (numbers(2, 8, 40),), soc, scheme)
    assert not told
    np.testing.assert_allclose(found, want, atol=1e-3 * step)


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
def test_indices_of_sorted_values_are_right(scheme: str) -> None:
    x = torch.from_numpy(np.random.default_rng(0).permuted(np.tile(np.arange(-30.0, 34), (6, 1)), axis=1))
    found, want, _, _ = compared(lambda x: x.argsort(-1).float() + 0.0, (x.float(),), "SM8650", scheme)
    np.testing.assert_allclose(found, want, atol=0.2)
