"""A model on several targets: their names in short, and a row of numbers for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from opdb.checks.coverage import Coverage, Row

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
    whole, npu = coverage.cost()["flops"], coverage.cost("supported")["flops"]
    if not whole:
        return ""
    share = f"{100 * npu / whole:.3g} %"
    return "above 99.9 %" if share == "100 %" and npu < whole else share


def first_reason(coverage: Coverage) -> str:
    """The reason that leaves the most nodes to the CPU, with their number; "" if there is none."""
    reasons = Counter(reason(r) for r in coverage.rows if r.verdict != "supported")
    if not reasons:
        return ""
    why, nodes = reasons.most_common(1)[0]
    others = len(reasons) - 1
    more = f"; and {others} other reason{'s' * (others != 1)}" if others else ""
    return f"{nodes} node{'s' * (nodes != 1)}: {why}{more}"


def reason(row: Row) -> str:
    """Why the target does not take a node, in one line that names its operator."""
    if row.verdict == "host":
        return f"no spec maps {row.target}"
    first = next(iter(sorted(row.reasons, key=lambda r: ".M_" in r["rule"])), None)
    if first is None:
        return f"{row.target} is refused"
    return (
        f"{row.target}: {first['rule']}: {first['brief']}"
        if first["rule"]
        else f"{row.target}: {first['brief']}"
    )
