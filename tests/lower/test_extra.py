"""The cost of avoiding errata, against the ops of the two lowerings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.verdicts import check_nodes
from opdb.judge.errata.report import Extra
from opdb.lower.cost import total
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import Lowered

pytestmark = pytest.mark.torch
EMULATOR = Target("HTP", "SM8650", execution="emulator")


class Called(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def checked(function: Callable[[Tensor], Tensor], target: Target) -> Coverage:
    return check_nodes(Program(export(Called(function), (torch.rand(2, 3, 16, 8),))), target)


def work(coverage: Coverage) -> Extra:
    (lowered,) = coverage.lowered.values()
    assert isinstance(lowered, Lowered)
    cost = total(lowered)
    return Extra(cost.ops, cost.macs, cost.bytes + cost.layout_bytes)


@pytest.mark.parametrize(
    "function",
    [torch.exp, lambda x: f.log_softmax(x, -1), lambda x: f.avg_pool2d(x, (3, 1), 1)],
    ids=["exp", "log_softmax", "avg_pool2d"],
)
def test_the_extra_cost_is_the_difference_to_the_shortest_form(function: Callable[[Tensor], Tensor]) -> None:
    avoided = checked(function, EMULATOR)
    ignored = checked(function, replace(EMULATOR, errata="ignore"))
    (row,) = avoided.rows
    added = Extra()
    for erratum in row.avoided:
        each = row.extra[erratum]
        assert each is not None
        added = added.plus(each)
    assert added.plus(work(ignored)) == work(avoided)
    assert added != Extra() and not ignored.rows[0].extra
    (warned,) = checked(function, replace(EMULATOR, errata="warn")).rows
    assert warned.extra.keys() <= row.extra.keys()
    assert all(cost is not None and cost.ops >= 0 for cost in warned.extra.values())
    if len(row.avoided) == 1:
        assert warned.extra == row.extra


def test_a_report_sums_the_extra_cost_of_nodes() -> None:
    once, twice = (
        checked(function, EMULATOR).errata() for function in (torch.exp, lambda x: torch.exp(torch.exp(x)))
    )
    (one,), (two,) = once, twice
    assert (one.ops, two.ops) == (1, 2) and two.bytes == 2 * (one.bytes or 0) > 0
    assert f"avoided {one.erratum} in 2 nodes" in two.text and "costs 2 ops, " in two.text


def test_avoiding_an_erratum_may_send_a_node_to_the_cpu() -> None:
    assert checked(torch.isnan, EMULATOR).rows[0].verdict == "rejected"
    (met,) = checked(torch.isnan, replace(EMULATOR, errata="warn")).errata()
    assert (met.nodes, met.cpu, met.ops) == (1, 1, 0)
    assert met.text.endswith("avoiding it sends 1 node back to the CPU")
