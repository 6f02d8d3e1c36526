"""Powers with a broadcast base, which HTP computes wrongly: floats on v68, quantized everywhere; on its library.

The quantized ones are in tests/plugins/executorch/quantized_cases.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from htp_module import Htp
from torch import Tensor

pytestmark = pytest.mark.vendor
#: The operands of base ** exponent, none of them the graph's own.
SHAPES = [
    ((6,), (2, 6, 6)),
    ((1, 6, 1), (2, 6, 6)),
    ((2, 6, 1), (2, 6, 6)),
    ((2, 1, 6), (2, 6, 1)),
    ((1, 1), (4, 5)),
]


def ran_on(htp: Htp, function: Callable[..., Tensor], *inputs: Tensor) -> tuple[list[str], float]:
    ran = htp.run(function, inputs)
    return [o.op for o in ran.graph.ops], ran.error


@pytest.mark.parametrize(("base", "exponent"), SHAPES, ids=str)
def test_a_broadcast_base_is_tiled_on_v68(base: tuple[int, ...], exponent: tuple[int, ...], v68: Htp) -> None:
    torch.manual_seed(0)
    given = torch.rand(base) + 0.5, torch.randn(exponent)
    ops, error = ran_on(v68, lambda x, y: x.abs() ** -y, *given)
    assert ops.count("Tile") == 1 and error <= 1e-6


@pytest.mark.parametrize(
    "function", [lambda x: 2.0 ** x.abs(), lambda x: torch.exp2(x * 1.25)], ids=["pow", "exp2"]
)
def test_a_constant_base_is_right_on_v68(function: Callable[[Tensor], Tensor], v68: Htp, htp: Htp) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 6, 5)
    assert ran_on(v68, function, x)[1] <= 1e-6
    assert ran_on(htp, function, x)[1] <= 2e-3


def test_a_broadcast_exponent_is_not_tiled_on_v68(v68: Htp) -> None:
    torch.manual_seed(0)
    ops, error = ran_on(v68, lambda x, y: x**-y, torch.rand(2, 6, 5) + 0.5, torch.randn(6, 1))
    assert "Tile" not in ops and error <= 1e-6
