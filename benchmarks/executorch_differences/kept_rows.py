"""Rows of an earlier page, whose numbers need not be run again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from executorch_differences.rows import EQUAL, NEITHER, OURS, THEIRS, Key, Row, targets_of

CELLS = re.compile(r"(?<!\\)\|")


def of_page(text: str) -> dict[Key, Row]:
    """The rows of a page that ``rows.page`` wrote, by their difference; numbers stay as ``shown``."""
    found: dict[Key, Row] = {}
    judgement, columns = "", []
    for line in text.splitlines():
        if line.startswith("## "):
            judgement = next(j for j in (EQUAL, OURS, THEIRS, NEITHER) if line[3:].lower().startswith(j))
        if not line.startswith("| "):
            continue
        cells = [c.strip().replace("\\|", "|") for c in CELLS.split(line)[1:-1]]
        if cells[0] == "operator":
            columns = cells
            continue
        cell = dict(zip(columns, cells, strict=True))
        row = _row(cell, judgement)
        found[Key(row["precision"], row["target"], tuple(row["differs"]))] = row
    return found


def _row(cell: Mapping[str, str], judgement: str) -> Row:
    operator = cell["operator"]
    target = operator if operator.count(".") > 1 else f"{operator}.default"
    sides = {side: {"shown": cell[side]} for side in ("theirs", "ours")}
    return {
        "target": target, "precision": cell["flow"], "differs": cell["theirs \u2192 ours"].split("; "), "judgement": judgement,
        **sides, "case": "", "cases": int(cell["cases"]), "run": 0, "example": [],
        "device": cell.get("on a device", ""), "why": cell.get("why more ops", ""),
    }  # fmt: skip


def added(found: Sequence[Row], records: Sequence[Mapping[str, Any]], kept: Mapping[Key, Row]) -> list[Row]:
    """``found`` with the kept rows of operators that no record of their flow reached."""
    reached = {(r["precision"], target) for r in records for target in targets_of(r)}
    more = [row for row in kept.values() if (row["precision"], row["target"]) not in reached]
    return sorted([*found, *more], key=lambda r: (r["target"], r["precision"], r["differs"]))
