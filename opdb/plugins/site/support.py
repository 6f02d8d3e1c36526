"""Support in words (``opdb.catalog.evidence.status``) of every op, type row, chip and SDK, arranged for matrices.

Chips for which the database has one set of rows are one ``Part``, under the name of its first chip; "" stands for a backend whose verdicts
do not depend on the chip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from opdb.catalog.evidence.status import NO, NOT_KNOWN, kind
from opdb.catalog.query import pivot
from opdb.catalog.query.sdk_ranges import ranges
from opdb.catalog.store.reader import Reader
from opdb.core.sdk import version


class Status(NamedTuple):
    """A word of opdb.catalog.evidence.status, the condition or the reason ("" if there is none), and what `opdb query` has besides."""

    word: str
    why: str
    errata: str = ""
    declared: str = ""


@dataclass(frozen=True)
class TypeRow:
    """One combination of data types on one backend, with the status for each part and SDK."""

    ident: str  # e.g. HTP.FP16.1
    backend: str
    cells: str  # e.g. x: f16, y: f16
    statuses: dict[tuple[str, str], Status] = field(default_factory=dict)  # (first chip of the part, SDK)

    @property
    def kind(self) -> str:
        """The kind of numbers, e.g. FP16; INT8 for INT8_2_47, which was found by asking that SDK's library."""
        return kind(self.ident)


@dataclass(frozen=True)
class Support:
    """The rows of all ops, the members of each part, and the measured SDKs of each backend in order."""

    rows: dict[str, list[TypeRow]]
    members: dict[str, tuple[str, ...]]
    sdks: dict[str, tuple[str, ...]]
    _of_kinds: dict[tuple[str, str, str, str, str], Status | None] = field(default_factory=dict, repr=False)

    @cached_property
    def part_of(self) -> dict[str, str]:
        return {chip: first for first, chips in self.members.items() for chip in chips}

    def kinds(self, backend: str) -> list[str]:
        """The kinds of numbers that the backend's rows have, the most frequent first."""
        counts = Counter(kind for _, of, kind in self._by_kind if of == backend)
        return sorted(counts, key=lambda k: (-counts[k], k))

    def of_kind(self, op: str, backend: str, kind: str, part: str, sdk: str) -> Status | None:
        """The status of an op for a kind of numbers, as `opdb query support --pivot` has it; None if nothing has such types."""
        key = (op, backend, kind, part, sdk)
        if key not in self._of_kinds:
            found = [
                {"status": s.word, "why": s.why, "errata": s.errata, "declared": s.declared, "cells": r.cells}
                for r in self._by_kind.get((op, backend, kind), ())
                if (s := r.statuses.get((part, sdk)))
            ]
            cell = pivot.of_kind(found) if found else None
            self._of_kinds[key] = (
                None if cell is None else Status(cell.word, cell.why or ", ".join(cell.exceptions))
            )
        return self._of_kinds[key]

    @cached_property
    def _by_kind(self) -> dict[tuple[str, str, str], list[TypeRow]]:
        made: dict[tuple[str, str, str], list[TypeRow]] = {}
        for op, rows in self.rows.items():
            for r in rows:
                made.setdefault((op, r.backend, r.kind), []).append(r)
        return made


def read(reader: Reader) -> Support:
    """The support that the database holds, without device runs."""
    members: dict[int, list[str]] = {}
    for r in reader.rows("SELECT part, soc FROM support_place ORDER BY part, soc"):
        members.setdefault(r["part"], []).append(r["soc"])
    first = {chips[0]: tuple(chips) for chips in members.values()}
    rows: dict[str, dict[str, TypeRow]] = {}
    sdks: dict[str, set[str]] = {}
    for r in reader.rows(_ROWS, firsts=sorted(first)):
        row = rows.setdefault(r["op"], {}).setdefault(
            r["type_row"], TypeRow(r["type_row"], r["backend"], r["cells"])
        )
        row.statuses[r["soc"], r["sdk"]] = Status(r["status"], r["why"] or "", r["errata"], r["declared"])
        sdks.setdefault(r["backend"], set()).add(r["sdk"])
    ordered = {b: tuple(sorted(found, key=version)) for b, found in sdks.items()}
    return Support({op: list(found.values()) for op, found in rows.items()}, first, ordered)


_ROWS = """
SELECT op, type_row, backend, cells, COALESCE(soc, '') AS soc, sdk, status, why, COALESCE(errata, '') AS errata, declared FROM v_support
WHERE COALESCE(soc, '') IN @firsts AND type_row IS NOT NULL AND cells IS NOT NULL AND COALESCE(execution, '') <> 'device'
ORDER BY op, place, type_row, soc, sdk_number"""


# -- matrices

#: A word and its reason.
_Said = tuple[str, str]


class Cell(NamedTuple):
    """One cell of a matrix: for each range of SDKs a word and the number of its note (0: none)."""

    ranges: tuple[tuple[str, str, int], ...]  # (SDKs, e.g. 2.47-2.51, or "" for all; word; note)


@dataclass(frozen=True)
class Matrix:
    """The type rows of an op on one backend against chips; parts that agree in everything share a column."""

    backend: str
    sdks: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]  # the chips of each
    rows: tuple[tuple[TypeRow, tuple[Cell, ...]], ...]
    notes: tuple[str, ...]
    others: tuple[
        tuple[str, str, tuple[str, ...]], ...
    ] = ()  # word, reason and chips without a column: all rows are alike


def matrices(support: Support, op: str) -> list[Matrix]:
    """A matrix for each backend that has type rows of the op."""
    rows = support.rows.get(op, [])
    return [
        _matrix(support, b, [r for r in rows if r.backend == b])
        for b in dict.fromkeys(r.backend for r in rows)
    ]


def _matrix(support: Support, backend: str, rows: list[TypeRow]) -> Matrix:
    sdks = support.sdks.get(backend, ())
    groups: dict[tuple[_Said | None, ...], list[str]] = {}
    for part, chips in support.members.items():
        key = tuple(
            s and (s.word, s.why) for r in rows for s in (r.statuses.get((part, sdk)) for sdk in sdks)
        )
        if any(key):
            groups.setdefault(key, []).extend(chips)
    folded = {
        key: said for key, chips in groups.items() if chips != [""] and (said := _alike(key, len(rows)))
    }
    if len(folded) == len(groups):
        folded = {}  # a matrix without columns says less
    shown = {key: chips for key, chips in groups.items() if key not in folded}
    notes: dict[str, int] = {}
    made = []
    for i, row in enumerate(rows):
        cells = [_cell(key[i * len(sdks) : (i + 1) * len(sdks)], sdks, notes) for key in shown]
        made.append((row, tuple(cells)))
    return Matrix(
        backend,
        sdks,
        tuple(map(tuple, shown.values())),
        tuple(made),
        tuple(notes),
        tuple((word, why, tuple(groups[key])) for key, (word, why) in folded.items()),
    )


def _alike(key: Sequence[_Said | None], rows: int) -> _Said | None:
    """What is said of all of several rows, if they are refused or not known for one reason, e.g. a chip without an HTP."""
    first = key[0]
    alike = (
        rows > 1 and first is not None and first[0] in (NO, NOT_KNOWN) and first[1] and set(key) == {first}
    )
    return first if alike else None


def _cell(statuses: Iterable[_Said | None], sdks: Sequence[str], notes: dict[str, int]) -> Cell:
    found: dict[_Said, list[str]] = {}
    for sdk, status in zip(sdks, statuses, strict=True):
        if status is not None:
            found.setdefault(status, []).append(sdk)
    return Cell(
        tuple(
            (
                "" if len(found) == 1 else ranges(tuple(where), tuple(sdks)),
                word,
                notes.setdefault(why, len(notes) + 1) if why else 0,
            )
            for (word, why), where in found.items()
        )
    )
