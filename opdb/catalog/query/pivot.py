"""Pivots rows of the question "support" into the usual supported-op table: a line per op and kind of data types, a column per target.

    op      types  HTP:SM8550 2.47-2.51      HTP:QCM6490 2.47-2.51
    MatMul  FP16   yes, except HTP-0054      no (the chip has no floating point)

A cell has one of the words of opdb.catalog.evidence.status, preceded by the SDKs if these differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opdb.catalog.evidence.status import EXCEPT, NO, NOT_KNOWN, WORDS, YES, kind
from opdb.catalog.query.rows import Row
from opdb.catalog.query.sdk_ranges import ranges
from opdb.core.names import counted
from opdb.core.sdk import version

Target = tuple[str, str, str]  # backend, SoC, "device" or ""
#: How many errata a cell names; a longer list ends in their number.
NAMED = 3
#: The longest reason that a cell has room for.
SHORT = 60


@dataclass(frozen=True)
class Pivot:
    """The table, its columns, and the errata that its cells name."""

    rows: list[Row]
    columns: list[str]
    errata: list[str]


@dataclass(frozen=True)
class Cell:
    """One SDK in a cell: a word, the exceptions to a yes, the reason for a no."""

    word: str
    exceptions: tuple[str, ...] = ()
    why: str = ""


def pivot(rows: Iterable[Row], by_soc: bool) -> Pivot:
    """``rows`` may be in any order and is read once.  Without ``by_soc`` a column has all chips of a backend, with their numbers."""
    places: dict[
        tuple[str, str], dict[Target, dict[str, dict[str, list[Row]]]]
    ] = {}  # op, kind; target; SDK; chip
    sdks: dict[Target, set[str]] = {}
    errata: set[str] = set()
    for row in rows:
        device = "device" if row["execution"] == "device" else ""
        target = (row["backend"] or "", (row["soc"] or "") if by_soc else "", device)
        sdk = row["sdk"] or ""
        sdks.setdefault(target, set()).add(sdk)
        of = places.setdefault((row["op"], kind(row["type_row"])), {}).setdefault(target, {})
        of.setdefault(sdk, {}).setdefault(row["soc"] or "", []).append(row)
        errata |= set(_ids(row))
    orders = {t: tuple(sorted(found, key=version)) for t, found in sdks.items()}
    names = {t: _name(t, orders[t]) for t in sorted(orders)}
    table: list[Row] = [
        {"op": op, "types": types}
        | {
            name: _text(
                {sdk: _of_chips([*chips.values()]) for sdk, chips in of.get(t, {}).items()}, orders[t]
            )
            for t, name in names.items()
        }
        for (op, types), of in sorted(places.items(), key=lambda e: e[0][0])
    ]
    return Pivot(table, ["op", "types", *names.values()], sorted(errata))


def _name(target: Target, sdks: Sequence[str]) -> str:
    backend, soc, device = target
    return " ".join(
        filter(None, (f"{backend}:{soc}" if soc else backend, ranges(tuple(sdks), tuple(sdks)), device))
    )


def _text(cells: dict[str, Cell], order: tuple[str, ...]) -> str | None:
    """A target's cells by SDK as one text, which names SDKs where they differ; None without cells."""
    if not cells:
        return None
    by_word: dict[str, list[str]] = {}
    for sdk in order:
        by_word.setdefault(cells[sdk].word if sdk in cells else NOT_KNOWN, []).append(sdk)
    texts = []
    for word, of in by_word.items():
        there = [cells[sdk] for sdk in of if sdk in cells]
        before = f"{ranges(tuple(of), order)}: " if len(by_word) > 1 else ""
        texts.append(f"{before}{word}{_exceptions(cells, of, order)}{_reason(there)}")
    return "; ".join(texts)


def _exceptions(cells: dict[str, Cell], of: Sequence[str], order: tuple[str, ...]) -> str:
    """The exceptions of a yes, those of some SDKs alone with these SDKs."""
    found: dict[str, list[str]] = {}
    for sdk in of:
        for exception in cells[sdk].exceptions if sdk in cells else ():
            found.setdefault(exception, []).append(sdk)
    names = [
        e if len(sdks) == len(of) else f"{e} ({ranges(tuple(sdks), order)})" for e, sdks in found.items()
    ]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f" {', '.join(names[:NAMED])}{more}" if names else ""


def _reason(cells: Sequence[Cell]) -> str:
    whys = {c.why for c in cells}
    why = next(iter(whys)) if len(whys) == 1 else ""
    return f" ({why})" if why and len(why) <= SHORT else ""


def _of_chips(chips: Sequence[Sequence[Row]]) -> Cell:
    found = [of_kind(rows) for rows in chips]
    if len({(c.word, c.exceptions) for c in found}) == 1:
        return found[0]
    words = [c.word for c in found]
    numbers = [(w, n) for w in WORDS if (n := words.count(w))]
    return Cell("; ".join(f"{w} on {counted(n, 'chip')}" for w, n in numbers))


def of_kind(rows: Sequence[Row]) -> Cell:
    """The type rows of one kind at one place.  Rows that are not declared there say nothing, unless all are."""
    declared = [r for r in rows if r["declared"] != "no" or r["status"] != NO] or [*rows]
    words = {r["status"] for r in declared}
    refused = [r for r in declared if r["status"] == NO]
    if words & {YES, EXCEPT}:
        ids = dict.fromkeys(e for r in declared if r["status"] == EXCEPT for e in _ids(r))
        unlike = dict.fromkeys(f"not {r['cells']}" for r in refused)
        if words == {YES} or not (refused or EXCEPT in words):
            return Cell(YES)
        return Cell(EXCEPT, (*ids, *unlike) or ("some cases",))
    if NOT_KNOWN in words:
        return Cell(NOT_KNOWN)
    whys = {r["why"] or "" for r in declared}
    return Cell(NO, (), next(iter(whys)) if len(whys) == 1 else "")


def _ids(row: Row) -> list[str]:
    """The errata of a row: first those that its reason names by their titles, because measurements met them."""
    ids = [e for e in (row["errata"] or "").split(", ") if e]
    return sorted(ids, key=lambda e: f"({e})" not in (row["why"] or ""))
