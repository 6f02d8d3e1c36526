"""The same node under each policy for its op's errata, and on backends without errata."""

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
from opdb.judge.errata.records import RECORDS
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

pytestmark = pytest.mark.torch
EMULATOR = Target("HTP", "SM8650", execution="emulator")
V68 = replace(EMULATOR, soc="SM8350")
OTHERS = (Target("CPU"), Target("GPU"))
PLACES = torch.arange(33) % 8
FILTER = torch.arange(12.0).reshape(1, 4, 3, 1)


class Called(torch.nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def checked(function: Callable[[Tensor], Tensor], x: Tensor, target: Target) -> Coverage:
    return check_nodes(Program(export(Called(function), (x,))), target)


def ops(coverage: Coverage) -> list[str]:
    return [op for row in coverage.rows for op in row.ops]


def of(op: str, workaround: str) -> frozenset[str]:
    """The ids of HTP's errata with this op and this workaround."""
    found = frozenset(e.id for e in RECORDS.values() if (e.op, e.workaround) == (op, workaround))
    assert found
    return found


#: name -> function, its input, target, op and workaround of the erratum, ops where it is avoided, ops otherwise
NODES: dict[str, tuple[Callable[[Tensor], Tensor], Tensor, Target, str, str, list[str], list[str]]] = {
    "a gather of rows of 16 bytes": (
        lambda x: x[PLACES],
        torch.arange(32, dtype=torch.int32).reshape(8, 4),
        EMULATOR,
        "Gather",
        "gather-from-one-matrix",
        ["StridedSlice", "Concat", "Gather"],
        ["Gather"],
    ),
    "a high and narrow mean pool": (
        lambda x: f.avg_pool2d(x, (3, 1), 1),
        torch.randn(1, 3, 16, 8),
        EMULATOR,
        "PoolAvg2d",
        "average-by-channel",
        ["DepthWiseConv2d"],
        ["PoolAvg2d"],
    ),
    "a maximum among zeros on v68": (
        lambda x: f.max_pool2d(x, 3, 1, 1),
        torch.randn(1, 3, 9, 9),
        V68,
        "PoolMax2d",
        "pad-with-least-number",
        ["Pad", "PoolMax2d"],
        ["PoolMax2d"],
    ),
    "constants behind the last dimension": (
        lambda x: f.pad(x, (0, 3)),
        torch.randn(4, 16),
        EMULATOR,
        "Pad",
        "pad-by-concat",
        ["Concat"],
        ["Pad"],
    ),
}


@pytest.mark.parametrize("name", NODES)
def test_avoid_warn_and_ignore_give_three_results(name: str) -> None:
    function, x, target, op, workaround, avoiding, plain = NODES[name]
    errata = of(op, workaround)

    avoided = checked(function, x, target)
    assert ops(avoided) == avoiding
    assert errata & {i for row in avoided.rows for i in row.avoided}
    assert not any(row.warned for row in avoided.rows)

    warned = checked(function, x, replace(target, errata="warn"))
    (met,) = errata & {i for row in warned.rows for i in row.warned}
    assert ops(warned) == plain and not any(row.avoided for row in warned.rows)
    (told,) = {w["message"] for row in warned.rows for w in row.warnings if w["rule"] == met}
    assert RECORDS[met].title in told and "avoiding it " in told
    assert any(library in told for library, _, _ in RECORDS[met].seen)

    for silent in (replace(target, errata="ignore"), replace(target, ignored=errata)):
        ignored = checked(function, x, silent)
        assert ops(ignored) == plain
        assert not any(row.avoided or row.warned or row.warnings for row in ignored.rows)


@pytest.mark.parametrize("name", NODES)
@pytest.mark.parametrize("backend", OTHERS, ids=str)
def test_htp_errata_do_not_apply_to_other_backends(name: str, backend: Target) -> None:
    function, x = NODES[name][:2]
    made = [
        checked(function, x, replace(backend, execution=execution, errata=errata))
        for execution in ("device", "emulator")
        for errata in (None, "avoid", "warn", "ignore")
    ]
    assert len({tuple(ops(m)) for m in made}) == 1
    assert not {
        i for m in made for row in m.rows for i in (*row.avoided, *row.warned) if RECORDS[i].backend == "HTP"
    }


def test_an_erratum_that_depends_on_context_follows_the_policy() -> None:
    """A column convolved to one channel: as an image one pixel high, or unchanged."""

    def filters(target: Target) -> tuple[list[int], Coverage]:
        coverage = checked(lambda x: f.conv2d(x, FILTER, padding=(1, 0)), torch.randn(2, 4, 7, 1), target)
        lowered = coverage.lowered["conv2d"]
        (convolution,) = (op for op in lowered.ops if op.op == "Conv2d")  # type: ignore[union-attr]
        assert convolution.inputs[1] is not None
        return list(convolution.inputs[1].shape), coverage

    (known,) = of("Conv2d", "column-as-row")
    shape, coverage = filters(EMULATOR)
    assert shape == [1, 3, 4, 1] and coverage.rows[0].avoided == (known,)
    shape, coverage = filters(replace(EMULATOR, errata="warn"))
    assert shape == [3, 1, 4, 1] and coverage.rows[0].warned == (known,)
    shape, coverage = filters(replace(EMULATOR, errata="ignore"))
    assert shape == [3, 1, 4, 1] and not coverage.rows[0].warned


def test_errata_do_not_apply_to_sdks_outside_their_scope() -> None:
    function, x, target, op, workaround, _, plain = NODES["constants behind the last dimension"]
    assert all(RECORDS[i].since is not None for i in of(op, workaround))
    assert ops(checked(function, x, replace(target, sdk="2.25"))) == plain


def test_a_report_counts_the_nodes_of_each_erratum() -> None:
    function, x, target, op, workaround, _, _ = NODES["constants behind the last dimension"]

    def twice(x: Tensor) -> Tensor:
        return function(function(x))

    (found,) = (e for e in checked(twice, x, target).errata() if e.erratum in of(op, workaround))
    assert (found.policy, found.nodes) == ("avoid", 2)
    (found,) = (
        e
        for e in checked(twice, x, replace(target, errata="warn")).errata()
        if e.erratum in of(op, workaround)
    )
    assert (found.policy, found.nodes) == ("warn", 2)
    assert found.text.startswith(f"warning {found.erratum} in 2 nodes: {found.title}")
