"""Functions of the largest and smallest fp16 numbers; run by ``opdb.plugins.executorch.process``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from opdb.catalog.targets.target import Target
from opdb.plugins.executorch import flow, registration

SOC = "SM8650"
LARGEST = 65504.0  # of fp16
SIZES = (0.0, 1e-3, 0.1, 0.5, 1, 2, 5, 8, 10, 11, 12, 16, 20, 30, 50, 80, 87, 88, 89, 90, 100, 104, 110, 126, 128,
         129, 150, 200, 300, 500, 1000, 5000, 20000, 60000, LARGEST)  # fmt: skip
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
    "acosh": lambda x: torch.acosh(x.abs() + 1.0),
    "log_softmax": lambda x: f.log_softmax(x, -1),
    "logaddexp": lambda x: torch.logaddexp(x, -x),
    "logsumexp": lambda x: torch.logsumexp(x, -1),
    "softplus": f.softplus,
    "softplus of another slope": lambda x: f.softplus(x, 2.0, 5.0),
    "log_sigmoid": f.logsigmoid,
    "mish": f.mish,
    "erf": torch.erf,
    "elu": f.elu,
    "square": torch.square,
    "product with itself": lambda x: x * x,
    **{f"power {e}": lambda x, e=e: torch.pow(x, e) for e in (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 15, 24)},
    **{f"power {e} of sizes": lambda x, e=e: torch.pow(x.abs(), e) for e in (0.5, 1.5, 2.5, 7.3, 14.2)},
}


class Each(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def numbers() -> Tensor:
    """[4, 70]; -0 at every position of a row, since HTP's faults with it depend on the position."""
    sizes = torch.tensor(SIZES)
    both = torch.cat((-sizes.flip(0), sizes))
    zeros = -torch.zeros(70)
    return torch.stack((both, zeros, torch.where(torch.arange(70) % 2 == 0, zeros, both), both.flip(0)))


def errors() -> dict[str, Any]:
    """Function -> the worst error, in units of 2 % of the result plus 0.02, within fp16's range."""
    x = numbers()
    found = {}
    registration.register(target=Target("HTP", SOC, execution="emulator"))
    try:
        for name, function in FUNCTIONS.items():
            compiled = flow.compile_module(Each(function), (x,), SOC)
            (got,) = flow.run_pte(compiled.pte, (x,))
            wanted = function(x).clamp(-LARGEST, LARGEST)
            off = (got.clamp(-LARGEST, LARGEST) - wanted).abs() / (0.02 * wanted.abs() + 0.02)
            found[name] = off.max().item()
    finally:
        registration.unregister()
    return found
