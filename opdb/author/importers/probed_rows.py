"""Adds rows of types printed by a later SDK's library to the rows of the documents."""

from __future__ import annotations

from opdb.author.importers.naming import Names
from opdb.author.importers.rows import Row, compact
from opdb.catalog.facts import DocumentedOp, observed_rows, observed_sdk, observed_source


def merge(
    op: DocumentedOp, backend: str, names: Names, documented: dict[str, list[Row]]
) -> tuple[dict[str, list[Row]], dict[str, dict[str, str]]]:
    """The rows by configuration plus those that only the backend's library prints, and the origins of the latter.

    Nothing changes for an op whose table the library does not print, or prints with other slots.
    """
    printed = _printed(op, backend, names)
    if not printed:
        return documented, {}
    rows, origins = dict(documented), {}
    sdk = observed_sdk(backend)
    later = "_" + sdk.replace(".", "_")  # a later library's differences get this suffix, e.g. FP16_2_47
    for config, group in printed.items():
        new = [row for row in group if not any(_covers(d, row) for g in documented.values() for d in g)]
        if new:
            rows[config + later] = compact(new)
            origins[config + later] = {"since": sdk, "source": observed_source(backend)}
    return rows, origins


def _printed(op: DocumentedOp, backend: str, names: Names) -> dict[str, list[Row]]:
    slots = {t.slot: t for t in (*op.inputs, *op.outputs)}
    short = {_first(slot): slot for slot in slots}
    out: dict[str, list[Row]] = {}
    for config, group in observed_rows(backend, op.name).items():
        for cells in group:
            row = {names.of(short[s]): (d,) for s, d in cells.items() if s in short}
            if len(row) != len(slots):
                return {}
            out.setdefault(config, []).append({names.of(s): row[names.of(s)] for s in slots})
    return out


def _first(slot: str) -> str:
    """The name of a slot's first tensor: in[0..m] -> in[0]."""
    return slot.partition("..")[0].rstrip("]") + "]"


def _covers(wide: Row, row: Row) -> bool:
    return all(set(cell) <= set(wide.get(slot, ())) for slot, cell in row.items())
