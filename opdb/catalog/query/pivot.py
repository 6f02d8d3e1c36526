"""Rows of the question "support" as people know supported-op tables: an op to a line, a target to a column.

A cell says how each documented configuration of data types fares on the target: ``yes: FP16 INT8; no: INT16``.
"""

from __future__ import annotations

from collections.abc import Iterable

from opdb.catalog.query.rows import Row
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.core.sdk import version

#: The verdicts of a cell, in its order, and what each says.
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
    """The table and its columns: ``op``, then targets, e.g. CPU@2.47, HTP:SM8650@2.47.

    Without ``by_soc`` one column stands for all SoCs: the worst that was measured on any.  A configuration that
    one of several type rows fails, fails.  What devices did has columns of its own.  Rows in any order, each read once.
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
    """The five statuses in one word, one of ``VERDICTS``.  That a library refuses what nobody declares is no verdict on it."""
    if (row["declared"], row["validates"]) == ("no", "no"):
        return "unknown"
    measured = [row[c] for c in STATUS_COLUMNS[1:]]
    for word in ("crashed", "hung", "no", "yes"):
        if word in measured:
            return word
    return "declared" if row["declared"] == "yes" else "unknown"


def _config(type_row: str | None) -> str:
    """HTP.FP16.1 -> FP16."""
    parts = (type_row or "").split(".")
    return parts[1] if len(parts) == 3 else type_row or "other"


def _cell(configs: dict[str, str]) -> str | None:
    groups = {
        v: " ".join(c for c, found in configs.items() if found == v) for v in VERDICTS if v != "unknown"
    }
    return "; ".join(f"{word}: {names}" for word, names in groups.items() if names) or None
