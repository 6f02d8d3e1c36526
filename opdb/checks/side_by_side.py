"""A model on several targets: their names in short, and a row of numbers for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opdb.checks.answer import main_reason, share
from opdb.checks.coverage import Coverage, Row
from opdb.core.names import counted

#: The columns of ``overview``.
COLUMNS = ("target", "nodes on the NPU", "FLOPs on the NPU", "graphs", "judged in", "first reason")


def labels(coverages: Sequence[Coverage]) -> list[str]:
    """A name for each target by what they do not share: "SM8650", "SDK 2.47", or "SM8650 SDK 2.47"."""
    several_socs = len({c.soc for c in coverages}) > 1
    several_sdks = len({c.sdk for c in coverages}) > 1
    return [_label(c, several_socs or not several_sdks, several_sdks) for c in coverages]


def _label(coverage: Coverage, soc: bool, sdk: bool) -> str:
    parts = (soc and (coverage.soc or coverage.backend), sdk and coverage.sdk and f"SDK {coverage.sdk}")
    return " ".join(p for p in parts if p)


def overview(coverages: Sequence[Coverage]) -> list[dict[str, Any]]:
    """A row for each target, with COLUMNS."""
    return [
        dict(zip(COLUMNS, (label, *_numbers(coverage)), strict=True))
        for label, coverage in zip(labels(coverages), coverages, strict=True)
    ]


def _numbers(coverage: Coverage) -> tuple[str, str, int, str, str]:
    taken = f"{coverage.count('supported')} of {len(coverage.rows)}"
    return taken, npu_flops(coverage), coverage.partitions, coverage.quantize or "", first_reason(coverage)


def npu_flops(coverage: Coverage) -> str:
    """The share of the FLOPs on the NPU in percent, never rounded up to all of them; "" if there are none."""
    whole = coverage.cost()["flops"]
    return share(coverage.cost("supported")["flops"], whole) if whole else ""


def first_reason(coverage: Coverage) -> str:
    """The reason that leaves the most nodes to the CPU, with their number; "" if there is none."""
    reasons = coverage.answer.reasons
    if not reasons:
        return ""
    others = len(reasons) - 1
    return reasons[0].line + (f"; and {counted(others, 'other reason')}" if others else "")


def reason(row: Row) -> str:
    """Why the target does not take a node, in one line."""
    why = main_reason(row)
    return f"{why['rule']}: {why['brief']}" if why["rule"] else why["brief"]
