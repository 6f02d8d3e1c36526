"""Turns documented dtype tables into the type rows of a spec: few rows that multiply out to exactly the same table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Row = dict[str, tuple[str, ...]]  # slot -> short dtype names


def compact(rows: Sequence[Mapping[str, Sequence[str]]]) -> list[Row]:
    """``rows`` with cells joined as long as the set of combinations stays the same.

    Two rows that differ in one slot become one whose cell lists both; this repeats, starting with the last slot, until
    nothing changes.  Rows, and names in a cell, keep the document's order.
    """
    out: list[Row] = []
    for row in rows:
        fresh = {slot: tuple(cell) for slot, cell in row.items()}
        if fresh not in out:
            out.append(fresh)
    slots = list(reversed(out[0])) if out else []
    before = None
    while before != len(out):
        before = len(out)
        for slot in slots:
            out = _join(out, slot)
    return out


def _join(rows: list[Row], slot: str) -> list[Row]:
    """Joins rows that only differ in ``slot``."""
    joined: dict[tuple[tuple[str, tuple[str, ...]], ...], Row] = {}
    for row in rows:
        rest = tuple((s, c) for s, c in row.items() if s != slot)
        if rest in joined:
            known = joined[rest][slot]
            joined[rest] = {**joined[rest], slot: (*known, *(d for d in row[slot] if d not in known))}
        else:
            joined[rest] = row
    return list(joined.values())
