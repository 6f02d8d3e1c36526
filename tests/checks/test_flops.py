"""FLOPs and bytes: against PyTorch's own counter, and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from every_module import Case, one_in
from modules import Function
from torch import nn
from torch._higher_order_ops import while_loop
from torch.utils.flop_counter import FlopCounterMode

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Row
from opdb.checks.flops import node_cost
from opdb.checks.gates import gate
from opdb.checks.verdicts import check_program
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

pytestmark = pytest.mark.torch
CPU, HTP = Target("CPU"), Target("HTP", "SM8650")
r = torch.randn


def row(call: Callable[..., Any], *inputs: torch.Tensor) -> Row:
    module = call if isinstance(call, nn.Module) else Function(call)
    (found,) = check_program(export(module, inputs), CPU).rows
    return found


@pytest.mark.parametrize(
    ("call", "inputs", "flops"),
    [
        (nn.Linear(5, 7), (r(2, 3, 5),), 2 * 6 * 5 * 7),
        (nn.Conv2d(4, 6, 3, groups=2), (r(1, 4, 8, 8),), 2 * 6 * 6 * 6 * 2 * 9),
        (torch.matmul, (r(2, 3, 4), r(4, 5)), 2 * 2 * 3 * 4 * 5),
        (nn.functional.scaled_dot_product_attention, (r(1, 2, 5, 4), r(1, 2, 6, 4), r(1, 2, 6, 3)), 2 * 2 * 5 * 6 * 7),
        (torch.add, (r(3, 1), r(4)), 12),
        (nn.LayerNorm(4), (r(3, 4),), 12),
        (lambda x: x.sum(1), (r(3, 4),), 3),
        (lambda x: x.permute(1, 0), (r(3, 4),), 0),
        (lambda x: torch.cat([x, x]), (r(3, 4),), 0),
        (lambda x: x.to(torch.float16), (r(3, 4),), 0),
        (lambda x: torch.split(x, 1), (r(3, 4),), 0),
    ],
)  # fmt: skip
def test_flops_of_a_node_are_counted(call: Any, inputs: tuple[torch.Tensor, ...], flops: int) -> None:
    assert row(call, *inputs).flops == flops


def test_bytes_count_reads_and_writes() -> None:
    assert row(nn.Linear(5, 7), r(2, 5)).bytes == 4 * (10 + 35 + 7 + 14)
    assert row(lambda x: x.to(torch.float16), r(2, 5)).bytes == 40 + 20


@pytest.mark.parametrize("case", one_in(6))
def test_flops_agree_with_pytorchs_counter(case: Case) -> None:
    """The sum over a program's nodes is at least PyTorch's count; the difference is one per element."""
    module, inputs = case.build(), case.inputs()
    exported = export(module, inputs)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module.eval()(*inputs)
    found = [node_cost(n.node) for n in Program(exported).nodes]
    if exported.range_constraints:  # sizes that depend on values
        assert None in [f for f, _ in found]
        return
    assert all(f is not None and b is not None for f, b in found)
    assert sum(f for f, _ in found if f is not None) >= counter.get_total_flops()


def test_costs_of_cpu_nodes_are_summed() -> None:
    model = nn.Sequential(nn.Linear(5, 7), Function(torch.special.erfcx))
    document = check_program(export(model, (r(2, 5),)), CPU).to_json()
    assert [row["verdict"] for row in document["rows"]] == ["supported", "host"]
    assert document["cost"] == {
        "nodes": 2,
        "flops": 2 * 2 * 5 * 7 + 14,
        "bytes": 4 * (66 + 28),
        "unknown": 0,
        "at_least": 0,
    }
    assert document["cpu"] == {"nodes": 1, "flops": 14, "bytes": 4 * 28, "unknown": 0, "at_least": 0}


class _Loop(nn.Module):
    """20 linear layers, as often as the data say."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _, y = while_loop(lambda i, y: i < 20, lambda i, y: (i + 1, self.linear(y)), (torch.tensor(0), x))
        return torch.relu(y)


class _Branches(_Loop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: self.linear(x), lambda x: x + 1, (x,))  # type: ignore[no-any-return]


def test_a_loop_counts_its_body_at_least_once() -> None:
    coverage = check_program(export(_Loop(), (r(1, 64),)), HTP)
    loop = next(row for row in coverage.rows if row.target == "while_loop")
    assert loop.at_least and loop.flops is not None and 2 * 64 * 64 <= loop.flops <= 2 * 64 * 64 + 8
    assert coverage.cost("host")["at_least"] == 1
    assert gate("cpu-flops>99%").hit(coverage) is not None


def test_a_gate_on_flops_does_not_trust_a_lower_bound() -> None:
    """The loop may run so often that the share is above any limit."""
    coverage = check_program(export(_Loop(), (r(1, 64),)), HTP)
    said = gate("cpu-flops>99.9%").hit(coverage)
    assert said == (
        "--fail-on cpu-flops>99.9%: FLOPs on the CPU: at least 99.2 %, with one run of a loop that the data decide"
    )


def test_branches_count_the_one_with_more_work() -> None:
    coverage = check_program(export(_Branches(), (r(1, 64),)), HTP)
    (branches,) = (row for row in coverage.rows if row.target == "cond")
    assert (branches.flops, branches.at_least) == (2 * 64 * 64, False)
    assert gate("cpu-flops>5%").hit(coverage) is not None


def test_symbolic_shapes_have_no_cost() -> None:
    program = torch.export.export(
        nn.Linear(4, 5), (r(3, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},)
    )
    coverage = check_program(program, CPU)
    assert coverage.rows[0].flops is None and coverage.cost()["unknown"] == 1
