"""The table for a terminal, and the JSON document for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from opdb.measure.conformance.judge import OUTCOMES
from opdb.measure.conformance.report.rows import Row
from opdb.catalog.query.table import agreement_table
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.core.names import counted

if TYPE_CHECKING:
    from opdb.measure.conformance.gaps import Gaps

FORMAT = "opdb-conformance-1"
#: Bad before good, so that a reader sees one crash among many successes.
WORST_FIRST = ("crashed", "hung", "no", "yes", "unknown", "not-applicable")


def document(
    rows: Sequence[Row],
    runs: Sequence[Mapping[str, Any]],
    gaps: Gaps | None = None,
    agreement: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Returns one JSON document with stable keys: format, runs, results, agreement; gaps if requested."""
    out: dict[str, Any] = {"format": FORMAT, "runs": list(runs)}
    out["results"] = [{**asdict(r), "config": json.loads(r.config)} for r in rows]
    out["agreement"] = list(agreement)
    if gaps is not None:
        out["gaps"] = gaps_data(gaps)
    return json.dumps(_finite(out), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def gaps_data(gaps: Gaps) -> dict[str, Any]:
    """The coverage as plain data."""
    rules = [asdict(r) | {"empty": list(r.empty)} for r in gaps.rules]
    names = ("code_not_spec", "cases_not_spec", "cases_not_code")
    return {"rules": rules} | {n: list(getattr(gaps, n)) for n in names}


def _finite(value: Any) -> Any:
    """Replaces infinities by strings, because JSON has none."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return str(value)
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    return [_finite(v) for v in value] if isinstance(value, (list, tuple)) else value


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each op and executor: cases, the five statuses of accepted configs, and the results that did not pass."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.op, row.place), []).append(row)
    out = []
    for (op, place), group in groups.items():
        good = [r for r in group if r.kind == "positive"]
        line: dict[str, Any] = {"op": op, "executor": place, "cases": len(group)}
        line |= {c: _counts([getattr(r, c) for r in good]) for c in STATUS_COLUMNS}
        refused = [r for r in group if r.kind == "negative"]
        line["rejects"] = f"{sum(r.validates == 'no' for r in refused)}/{len(refused)}" if refused else "-"
        outcomes = Counter(r.outcome for r in group)
        line["not passed"] = ", ".join(f"{outcomes[o]} {o}" for o in OUTCOMES[:0:-1] if outcomes[o]) or "-"
        out.append(line)
    return out


def _counts(statuses: Sequence[str]) -> str:
    """Formats counts of statuses, e.g. yes; 3 no, 40 yes; -"""
    counts = Counter(statuses)
    del counts["not-applicable"]
    if not counts:
        return "-"
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{counts[s]} {s}" for s in WORST_FIRST if counts[s])


def table(rows: Sequence[Row], gaps: Gaps | None = None, agreement: Sequence[Mapping[str, Any]] = ()) -> str:
    """Formats the results as columns aligned with blanks."""
    parts = [columns(summary(rows)), agreement_table(agreement), "" if gaps is None else gaps_table(gaps)]
    return "\n".join(filter(None, parts))


def gaps_table(gaps: Gaps) -> str:
    """Lists the rules with an empty column, the implied rules, and the set differences."""
    implied = [r for r in gaps.rules if not r.alone and r.implied_by]
    lines = [f"{counted(len(gaps.rules), 'rule')}, {len(gaps.left)} with a gap, {len(implied)} implied by others"]
    lines += [f"  gap      {r.rule}: {', '.join(r.empty)}" for r in gaps.left]
    lines += [f"  implied  {r.rule} by {', '.join(r.implied_by)}" for r in implied]
    for name in ("code_not_spec", "cases_not_spec", "cases_not_code"):
        found = getattr(gaps, name)
        lines.append(f"  {name.replace('_', ' ')}: {', '.join(found) or 'none'}")
    return "\n".join(lines) + "\n"


def columns(lines: Sequence[Mapping[str, Any]]) -> str:
    """Formats lines as plain text: the keys as the header, columns as wide as their widest value."""
    if not lines:
        return ""
    cells = [list(lines[0])] + [[str(v) for v in line.values()] for line in lines]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    out = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join(out) + "\n"
