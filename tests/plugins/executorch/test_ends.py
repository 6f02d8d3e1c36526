"""Programs whose graphs have unusual inputs or outputs give PyTorch's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.plugins.executorch import env
from opdb.plugins.executorch.flow import Plugin, compile_program, run_program
from opdb.programs.torch.export import export

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
PLUGIN = Plugin("opdb.lower.select:lower", Target("HTP", "SM8650", execution="emulator"))


class Shapes(torch.nn.Module):
    """An input of which only the shape is used, before one that is read."""

    def forward(self, y: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.ones_like(y) + x * 2, torch.full_like(y, 3.0) * x - y.new_zeros(8)


class Later(torch.nn.Module):
    """Like Shapes, in the second graph: the 5-D sums stay on the CPU.  An int64 input is passed through."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a, b = (torch.cumsum(torch.relu(x * k).reshape(1, 1, 1, 2, 8), -1) for k in (1.0, -2.0))
        return torch.ones_like(a) + b * 2, a.reshape(2, 8), n, n + 1


class Order(torch.nn.Module):
    """The first graph returns parts of two splits and a tensor between them."""

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        z, x, d = torch.split(u * 1.5, [4, 12, 4], -1)
        p, b, c = torch.split(torch.sigmoid(x), [4, 4, 4], -1)
        a = torch.relu(d)
        e, f = torch.exp(a), p * 2
        sums = [torch.cumsum(t, -1) for t in (a, e, b, c, z)]
        return torch.relu(sums[0] + sums[1] * sums[2] + sums[3] * sums[4] + f)


class Windows(torch.nn.Module):
    """Swin's windows, of six dimensions."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.reshape(1, 2, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 16)
        return torch.relu(y).view(1, 2, 2, 4, 4, 16).transpose(2, 3).reshape(1, 8, 8, 16)


class Earlier(torch.nn.Module):
    """Results computed from later ones, and one between the parts of a split."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.relu(x)
        b, c = torch.split(a * 0.5, [3, 5], -1)
        return torch.exp(-a), b, a, c, torch.topk(x, 2)[1]


def floats(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "inputs"),
    [
        (Shapes(), (floats(2, 8) + 10, floats(2, 8))),
        (Later(), (floats(2, 8), torch.tensor([[5, -6]]))),
        (Order(), (floats(1, 2, 2, 3, 20) * 0.3,)),
        (Earlier(), (floats(2, 8),)),
        (Windows(), (floats(1, 8, 8, 16),)),
    ],
    ids=["shapes", "later", "order", "earlier", "windows"],
)
def test_unusual_ends_match_pytorch(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
    environment = env.prepare()
    made = compile_program(export(module, inputs), "SM8650", environment=environment, plugin=PLUGIN)
    assert all("cumsum" in n or "getitem" in n for n in made.not_delegated)
    got = run_program(made.pte, inputs, environment=environment)
    wanted: Any = module(*inputs)
    for g, w in zip(got, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        assert g.dtype == w.numpy().dtype
        np.testing.assert_allclose(g, w.numpy(), rtol=4e-3, atol=4e-3)


class Cond(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))


def test_branches_on_data_are_rejected() -> None:
    program = export(Cond(), (torch.ones(2, 4),))
    with pytest.raises(OpdbError, match=r"torch\.cond: ExecuTorch's flow for QNN ends at it"):
        compile_program(program, "SM8650", environment=env.prepare(), plugin=PLUGIN)
    verdicts = {r.target: r.verdict for r in check_program(program, Target("HTP", "SM8650")).rows}
    assert verdicts == {"aten.sum.default": "supported", "aten.gt.Scalar": "supported", "cond": "host"}


class Sums(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cumsum(x * 0.5, -1)) * 0.25


def test_quantized_nodes_can_run_on_the_cpu() -> None:
    """The 5-D sum in 16 bits stays on the CPU, between quantize and dequantize nodes."""
    x = floats(1, 2, 2, 3, 8)
    program = export(Sums(), (x,))
    made = compile_program(program, "SM8650", environment=env.prepare(), plugin=PLUGIN, recipe="16a8w")
    assert any("cumsum" in n for n in made.not_delegated)
    (got,) = run_program(made.pte, (x,), environment=env.prepare())
    np.testing.assert_allclose(got, Sums()(x).numpy(), atol=2e-3)
