"""Compares the documents on an op and backend with its library's behavior: a line for each type row.

``documented``: cases of that row, which the documents declare, and cases that break one of their rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from opdb.measure.conformance.report.rows import Row

AS_DOCUMENTED = "as documented"
UNDECLARED, NO_ROW = "(breaks a rule)", "(no type row)"


@dataclass(frozen=True)
class Measured:
    """``row``: the type row; UNDECLARED for configs that the documents forbid, NO_ROW for configs that no row covers."""

    op: str
    place: str
    row: str
    cases: int
    validated: int
    finalized: int
    executed: int
    matched: int
    verdict: str


def measured(rows: Sequence[Row]) -> Iterator[Measured]:
    """Yields rows in the order of ops, executors and type rows, without opdb's own executors."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        if row.backend:
            kind = (row.type_row or NO_ROW) if row.kind == "positive" else UNDECLARED
            groups.setdefault((row.op, row.place, kind), []).append(row)
    for (op, place, kind), group in groups.items():
        verdict = _forbidden(group) if kind == UNDECLARED else _declared(group)
        validated, finalized, executed, matched = (sum(getattr(r, s) == "yes" for r in group) for s in STEPS)
        yield Measured(op, place, kind, len(group), validated, finalized, executed, matched, verdict)


STEPS = ("validates", "finalizes", "executes", "matches")
_NOT = {
    "validates": "not validated",
    "finalizes": "validated, not finalized",
    "executes": "finalized, not executed",
    "matches": "wrong results",
}


_UNKNOWN = {
    "validates": "not asked",
    "finalizes": "not finalized here",
    "executes": "not executed here",
    "matches": "not compared",
}


def _declared(group: Sequence[Row]) -> str:
    """The first step at which cases end, with their number; e.g. 3 validated, not finalized."""
    said = []
    for step, words in _NOT.items():
        for status, how in (("no", words), ("crashed", f"crashed: {words}"), ("hung", f"hung: {words}")):
            if n := sum(getattr(r, step) == status for r in group):
                said.append(f"{n} {how}")
    unknown = [f"{n} {words}" for step, words in _UNKNOWN.items() if (n := _ended(group, step))]
    return ", ".join(said) or ", ".join([AS_DOCUMENTED, *unknown])


def _ended(group: Sequence[Row], step: str) -> int:
    """The number of cases that passed every step before ``step`` and are unknown there."""
    before = STEPS[: STEPS.index(step)]
    return sum(getattr(r, step) == "unknown" and all(getattr(r, s) == "yes" for s in before) for r in group)


def _forbidden(group: Sequence[Row]) -> str:
    words = {"yes": "validated all the same", "crashed": "crashed", "hung": "hung"}
    said = [f"{n} {how}" for status, how in words.items() if (n := sum(r.validates == status for r in group))]
    return ", ".join(said) or AS_DOCUMENTED
