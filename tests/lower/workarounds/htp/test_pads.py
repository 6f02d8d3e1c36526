"""Pads that HTP computes wrongly after another op: elements only after the last dimension; on its library."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from htp_module import Htp
from torch import Tensor
from torch.nn import functional as f

pytestmark = pytest.mark.vendor
#: name -> the ops between a product and a sum, the shape of their input, the lowered ops
CASES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...], list[str]]] = {
    "behind a row": (lambda x: f.pad(x, (0, 3)), (4, 16), ["Concat"]),
    "behind a line": (lambda x: f.pad(x, (0, 1), value=-1.5), (9,), ["Concat"]),
    "behind two dimensions": (lambda x: f.pad(x, (0, 3, 0, 2)), (1, 3, 16, 24), ["Pad", "Concat"]),
    "behind rows, before columns": (lambda x: f.pad(x, (0, 3, 2, 0)), (1, 2, 9, 16), ["Pad", "Concat"]),
    "of five dimensions": (lambda x: f.pad(x, (0, 2, 0, 1)), (1, 2, 3, 4, 5), ["Pad", "Concat"]),
    "on both sides of a row": (lambda x: f.pad(x, (1, 3)), (4, 16), ["Pad"]),
    "before a row": (lambda x: f.pad(x, (2, 0)), (4, 16), ["Pad"]),
    "behind columns": (lambda x: f.pad(x, (0, 0, 0, 2)), (1, 3, 16, 24), ["Pad"]),
    "behind a row that is cut": (lambda x: f.pad(x, (-1, 3)), (4, 16), ["StridedSlice", "Concat"]),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pad_after_another_op_is_right(name: str, htp: Htp) -> None:
    call, shape, ops = CASES[name]
    torch.manual_seed(0)
    ran = htp.run(lambda x: call(x * 1.25) + 0.5, (torch.randn(shape),))
    assert [op.op for op in ran.graph.ops][1:-1] == ops
    assert ran.error <= 1e-3
