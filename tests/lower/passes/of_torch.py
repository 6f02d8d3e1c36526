"""PyTorch functions as modules."""

from __future__ import annotations

from collections.abc import Callable

import torch

Tensor = torch.Tensor


class Of(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)
