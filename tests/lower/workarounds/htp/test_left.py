"""Ops that HTP validates for v68 but computes wrongly, or cannot finalize, and without another form: rejected with the rule."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from htp_module import HTP, V68, Call, Htp
from torch import Tensor
from torch.nn import functional as f

from opdb.checks.verdicts import check_nodes
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

pytestmark = pytest.mark.vendor
CASES = {
    "HTP-0094": (lambda x: f.pixel_unshuffle(x, 2), (1, 1, 4, 4)),
    "HTP-0015": (lambda x: f.pixel_shuffle(x, 4), (1, 16, 4, 4)),
}


@pytest.mark.parametrize("rule", CASES)
def test_ops_without_a_right_form_are_rejected_on_v68(rule: str, htp: Htp) -> None:
    function, shape = CASES[rule]
    program = Program(export(Call(function), (torch.randn(shape),)))
    (row,) = check_nodes(program, V68).rows
    assert row.verdict == "rejected" and rule in {r["rule"] for r in row.reasons}
    assert check_nodes(program, HTP).complete
    assert htp.run(function, (torch.randn(shape),)).error <= 1e-3


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: f.pixel_unshuffle(x, 2), (1, 2, 4, 4)),
        (lambda x: f.pixel_unshuffle(x, 8), (2, 1, 16, 8)),
        (lambda x: f.pixel_shuffle(x, 4), (1, 32, 4, 4)),
        (lambda x: f.pixel_shuffle(x, 2), (1, 4, 4, 4)),
    ],
)
def test_similar_shuffles_are_right_on_v68(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...], v68: Htp
) -> None:
    assert v68.run(function, (torch.randn(shape),)).error <= 1e-6
