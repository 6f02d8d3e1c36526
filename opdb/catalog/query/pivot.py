"""Pivots rows of the question "support" into the usual supported-op table: one op per line, one target per column.

A cell gives the verdict on each documented configuration of data types on the target: ``yes: FP16 INT8; no: INT16``.
"""

from __future__ import annotations

from collections.abc import Iterable

from opdb.catalog.query.rows import Row
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.core.sdk import version

#: The verdicts of a cell, in order, and their meanings.
VERDICTS = {
    "yes": "the library takes it, as far as it was asked: validation, preparation, execution, numbers",
    "no": "a stage refuses it, or the numbers are others",
    "crashed": "the library crashed",
    "hung": "the library hung",
    "declared": "the documents say so; nothing was measured",
    "unknown": "neither declared nor measured",
}
_WORST = ("crashed", "hung", "no", "yes", "declared", "unknown")


def pivot(rows: Iterable[Row], by_soc: bool) -> tuple[list[Row], list[str]]:
    """Returns the table and its columns: ``op``, then targets, e.g. CPU@2.47, HTP:SM8650@2.47.

    Without ``by_soc`` one column has the worst result over all SoCs.  A configuration fails if any of its type rows fails.
    Device results have separate columns.  ``rows`` may be in any order and is read once.
    """
    cells: dict[str, dict[tuple[str, str, str, str], dict[str, str]]] = {}
    targets: dict[tuple[str, str, str, str], None] = {}
    for row in rows:
        device = "device" if row["execution"] == "device" else ""
        target = (row["backend"] or "", (row["soc"] or "") if by_soc else "", row["sdk"] or "", device)
        found = cells.setdefault(row["op"], {}).setdefault(target, {})
        config = _config(row["type_row"])
        targets[target] = None
        found[config] = min(found.get(config, "unknown"), verdict(row), key=_WORST.index)
    ordered = sorted(targets, key=lambda t: (t[0], t[1], version(t[2]), t[3]))
    names = [
        f"{backend}{':' * bool(soc)}{soc}{'@' * bool(sdk)}{sdk}{' ' * bool(device)}{device}"
        for backend, soc, sdk, device in ordered
    ]
    table: list[Row] = [
        {"op": op} | {n: _cell(of.get(t, {})) for n, t in zip(names, ordered, strict=True)}
        for op, of in sorted(cells.items())
    ]
    return table, ["op", *names]


def verdict(row: Row) -> str:
    """Condenses the five statuses to one of ``VERDICTS``; "unknown" if a library refuses an undeclared row."""
    if (row["declared"], row["validates"]) == ("no", "no"):
        return "unknown"
    measured = [row[c] for c in STATUS_COLUMNS[1:]]
    for word in ("crashed", "hung", "no", "yes"):
        if word in measured:
            return word
    return "declared" if row["declared"] == "yes" else "unknown"


def _config(type_row: str | None) -> str:
    """The configuration of a type row, e.g. HTP.FP16.1 -> FP16."""
    parts = (type_row or "").split(".")
    return parts[1] if len(parts) == 3 else type_row or "other"


def _cell(configs: dict[str, str]) -> str | None:
    groups = {
        v: " ".join(c for c, found in configs.items() if found == v) for v in VERDICTS if v != "unknown"
    }
    return "; ".join(f"{word}: {names}" for word, names in groups.items() if names) or None
