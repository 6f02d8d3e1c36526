"""Support in words (``opdb.catalog.evidence.status``) of every op, type row, chip and SDK, arranged for matrices.

Chips for which the database has one set of rows are one ``Part``, under the name of its first chip; "" stands for a backend whose verdicts
do not depend on the chip.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from opdb.catalog.store.reader import Reader
from opdb.core.sdk import version

YES, EXCEPT, NO, UNKNOWN = "yes", "yes, except", "no", "not known"
WORDS = (YES, EXCEPT, NO, UNKNOWN)
#: The word for several type rows of a kind of numbers, if they differ: the first that is there, and EXCEPT if NO is there besides.
_OF_SEVERAL = (EXCEPT, YES, UNKNOWN, NO)


class Status(NamedTuple):
    """A word of WORDS, and the condition or the reason ("" if there is none)."""

    word: str
    why: str


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
        return kind_of(self.ident)


def kind_of(type_row: str) -> str:
    config = type_row.split(".")[1] if type_row.count(".") == 2 else type_row
    return re.sub(r"_\d+_\d+$", "", config).upper()


@dataclass(frozen=True)
class Support:
    """The rows of all ops, the members of each part, and the measured SDKs of each backend in order."""

    rows: dict[str, list[TypeRow]]
    members: dict[str, tuple[str, ...]]
    sdks: dict[str, tuple[str, ...]]

    @cached_property
    def part_of(self) -> dict[str, str]:
        return {chip: first for first, chips in self.members.items() for chip in chips}

    def kinds(self, backend: str) -> list[str]:
        """The kinds of numbers that the backend's rows have, the most frequent first."""
        counts: dict[str, int] = {}
        for rows in self.rows.values():
            for kind in {r.kind for r in rows if r.backend == backend}:
                counts[kind] = counts.get(kind, 0) + 1
        return sorted(counts, key=lambda k: (-counts[k], k))

    def of_kind(self, op: str, backend: str, kind: str, part: str, sdk: str) -> Status | None:
        """The status of an op for a kind of numbers; None if no documents or libraries have such types."""
        found = [
            s
            for r in self.rows.get(op, ())
            if r.backend == backend and r.kind == kind and (s := r.statuses.get((part, sdk)))
        ]
        return together(found) if found else None


def together(found: Sequence[Status]) -> Status:
    """One status for several type rows of a kind."""
    words = {s.word for s in found}
    whys = list(dict.fromkeys(s.why for s in found if s.why and s.word in (EXCEPT, NO)))
    if words == {NO}:
        return Status(NO, "; ".join(whys))
    word = next(w for w in _OF_SEVERAL if w in words)
    if word == YES and words & {NO, UNKNOWN}:
        refused = sum(s.word != YES for s in found)
        return Status(EXCEPT, "; ".join([f"{refused} of {len(found)} combinations of types are not taken", *whys]))
    return Status(word, "; ".join(whys))


def read(reader: Reader) -> Support:
    """The support that the database holds, without device runs."""
    members: dict[int, list[str]] = {}
    for r in reader.rows("SELECT part, soc FROM support_place ORDER BY part, soc"):
        members.setdefault(r["part"], []).append(r["soc"])
    first = {chips[0]: tuple(chips) for chips in members.values()}
    rows: dict[str, dict[str, TypeRow]] = {}
    sdks: dict[str, set[str]] = {}
    for r in reader.rows(_ROWS, firsts=sorted(first)):
        row = rows.setdefault(r["op"], {}).setdefault(r["type_row"], TypeRow(r["type_row"], r["backend"], r["cells"]))
        row.statuses[r["soc"], r["sdk"]] = Status(r["status"], _sentence(r["why"]))
        sdks.setdefault(r["backend"], set()).add(r["sdk"])
    ordered = {b: tuple(sorted(found, key=version)) for b, found in sdks.items()}
    return Support({op: list(found.values()) for op, found in rows.items()}, first, ordered)


_ROWS = """
SELECT op, type_row, backend, cells, COALESCE(soc, '') AS soc, sdk, status, why FROM v_support
WHERE COALESCE(soc, '') IN @firsts AND type_row IS NOT NULL AND cells IS NOT NULL AND COALESCE(execution, '') <> 'device'
ORDER BY op, place, type_row, soc, sdk_number"""


def _sentence(why: str | None) -> str:
    return "" if why is None else why


# -- matrices


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


def matrices(support: Support, op: str) -> list[Matrix]:
    """A matrix for each backend that has type rows of the op."""
    rows = support.rows.get(op, [])
    return [_matrix(support, b, [r for r in rows if r.backend == b]) for b in dict.fromkeys(r.backend for r in rows)]


def _matrix(support: Support, backend: str, rows: list[TypeRow]) -> Matrix:
    sdks = support.sdks.get(backend, ())
    parts = [p for p in support.members if any((p, s) in r.statuses for r in rows for s in sdks)]
    groups: dict[tuple[Status | None, ...], list[str]] = {}
    for part in parts:
        groups.setdefault(tuple(r.statuses.get((part, s)) for r in rows for s in sdks), []).append(part)
    notes: dict[str, int] = {}
    made = []
    for i, row in enumerate(rows):
        cells = []
        for key in groups:
            cells.append(_cell(key[i * len(sdks) : (i + 1) * len(sdks)], sdks, notes))
        made.append((row, tuple(cells)))
    columns = tuple(tuple(c for p in group for c in support.members[p]) for group in groups.values())
    return Matrix(backend, sdks, columns, tuple(made), tuple(notes))


def _cell(statuses: Iterable[Status | None], sdks: Sequence[str], notes: dict[str, int]) -> Cell:
    runs: list[tuple[list[str], Status]] = []
    for sdk, status in zip(sdks, statuses, strict=True):
        if status is None:
            continue
        if runs and runs[-1][1] == status:
            runs[-1][0].append(sdk)
        else:
            runs.append(([sdk], status))
    whole = len(runs) == 1
    return Cell(
        tuple(
            (
                "" if whole else sdk_range(where),
                status.word,
                notes.setdefault(status.why, len(notes) + 1) if status.why else 0,
            )
            for where, status in runs
        )
    )


def sdk_range(sdks: Sequence[str]) -> str:
    """E.g. 2.47-2.51."""
    return sdks[0] if len(sdks) == 1 else f"{sdks[0]}-{sdks[-1]}"
