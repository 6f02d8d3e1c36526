"""A model with one node that falls back to the CPU."""

from __future__ import annotations

import torch
from torch import nn


class Scattered(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.masked_scatter(torch.relu(x), x > 0, x)


def with_a_node_for_the_cpu() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Scattered(), (torch.randn(4, 3),)
