"""Formats rows of the question "agreement" as text for all commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opdb.core.names import counted

HEADER = ("op", "where", "n", "both accept", "both reject", "only we accept", "only it accepts", "undecided",
          "crashed", "percent")  # fmt: skip
COUNTS = (
    "n",
    "both_accept",
    "both_reject",
    "we_accept_it_rejects",
    "we_reject_it_accepts",
    "undecided",
    "crashed",
)


def agreement_cells(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """One line per row, in the order of HEADER, then one total per library and SoC."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    lines = []
    for row in rows:
        where = " ".join(filter(None, (row["backend"], row["sdk"], row["soc"])))
        groups.setdefault(where, []).append(row)
        lines.append((row["op"], where, *(str(row[c]) for c in COUNTS), _percent(row["n"], _both(row))))
    for where, group in groups.items():
        sums = [sum(r[c] for r in group) for c in COUNTS]
        lines.append(
            (counted(len(group), "op"), where, *map(str, sums), _percent(sums[0], sum(map(_both, group))))
        )
    return lines


def agreement_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """``agreement_cells`` by the names of HEADER."""
    return [dict(zip(HEADER, line, strict=True)) for line in agreement_cells(rows)] if rows else []


def agreement_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """A text table with aligned columns; "" if there are no rows."""
    if not rows:
        return ""
    lines = [HEADER, *agreement_cells(rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(HEADER))]
    return "".join(
        "  ".join(
            c.ljust(w) if i < 2 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))
        )
        + "\n"
        for line in lines
    )


def _both(row: Mapping[str, Any]) -> int:
    return int(row["both_accept"]) + int(row["both_reject"])


def _percent(n: int, both: int) -> str:
    return f"{100 * both / n:.2f}" if n else "-"
