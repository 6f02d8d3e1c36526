"""Models for plans, and PyTorch's own results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.execute.dispatch import Plan, partition
from opdb.programs.torch.export import export

CPU, HTP = Target("CPU", execution="emulator"), Target("HTP", "SM8650", execution="emulator")


class Call(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: Any) -> Any:
        return self.call(*args)


class Attention(nn.Module):
    """One head, without a mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1) @ self.v(x)


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.attn, self.up = nn.LayerNorm(width), Attention(width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.norm(x))
        return x + torch.relu(self.up(x))


class Model(nn.Module):
    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def seeded(make: Callable[[], Any]) -> Any:
    torch.manual_seed(3)
    return make().eval()


def plan_of(module: Any, *inputs: Any, target: Target = CPU, **options: Any) -> Plan:
    return partition(export(module, inputs), target, **options)


def truth(module: Any, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    with torch.no_grad():
        made = module(*inputs)
    return [t.numpy() for t in (made if isinstance(made, tuple) else (made,))]


def agree(got: dict[str, Any], wanted: list[Any], bound: float = 1e-5) -> None:
    assert len(got) == len(wanted)
    for a, b in zip(got.values(), wanted, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound * max(1.0, float(np.abs(b).max())))
