"""What the evidence that opdb ships says, as generated pages and tables show it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from opdb.catalog.evidence import STAGES, Cell
from opdb.catalog.evidence.format import read, shipped_path
from opdb.catalog.evidence.text import of_chips, provenance, told
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Measured
from opdb.spec.catalog import Catalog

#: The precisions of ExecuTorch's whole flow, in the order of tables.
PRECISIONS = ("float", "8a8w", "16a8w")
Place = tuple[str, str]  # backend, SDK


def key() -> str:
    """Names the file for what remembers what it was made from."""
    path = shipped_path()
    return _sha256(path, path.stat().st_mtime_ns) if path.is_file() else ""


@cache
def _sha256(path: Path, changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def input_path() -> str:
    """The file among the inputs of an artifact."""
    return "opdb/catalog/evidence/shipped.jsonl.gz"


@cache
def _by_name(path: Path, sha256: str) -> dict[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in read(path).cells.values() if sha256 else ():
        found.setdefault((cell.kind, cell.name), []).append(cell)
    return found


def cells(kind: str, name: str) -> Sequence[Cell]:
    """The cells of one op, or of one PyTorch operator."""
    return _by_name(shipped_path(), key()).get((kind, name), [])


def page(op: str, rows: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
    """(libraries, (row, a cell for each library), what was asked and when) of an op's page; nothing without evidence."""
    found = cells("op", op)
    places = sorted({(c.run.backend, c.run.sdk) for c in found}, key=lambda p: (p[0], sdk_number(p[1])))
    lines = []
    for row in rows:
        mine = [c for c in found if c.row == row]
        if mine:
            backend = row.partition(".")[0]
            each = [
                (of_chips(c for c in mine if (c.run.backend, c.run.sdk) == p) or "unknown")
                if p[0] == backend
                else ""
                for p in places
            ]
            lines.append((row, each))
    return [" ".join(p) for p in places], lines, provenance({c.run for c in found})


def at(catalog: Catalog, backend: str) -> Measured | None:
    """Where the tables show a backend: the library and chip of specs/backends."""
    known = catalog.backends.get(backend)
    return None if known is None else known.measured


def row_at(catalog: Catalog, op: str, row: str) -> Cell | None:
    """The cell of a type row in the place of the tables."""
    place = at(catalog, row.partition(".")[0])
    if place is None:
        return None
    return next(
        (c for c in cells("op", op) if (c.row, c.run.sdk, c.run.soc) == (row, place.sdk, place.soc or "")), None
    )  # fmt: skip


def columns(cell: Cell | None) -> tuple[str, ...]:
    """Of a line of support.csv: the statuses, the number of cases, in words, the erratum, with what and when."""
    if cell is None:
        return ("unknown",) * len(STAGES) + ("",) * 4
    run, outcome = cell.run, cell.outcome
    where = " ".join(filter(None, (run.library, run.soc, run.execution)))
    return (*outcome.statuses, str(outcome.cases), told(outcome), where, run.date)


def of_configurations(catalog: Catalog, op: str, backend: str, rows: Sequence[str]) -> str:
    """Of a cell of support.md: how many type rows came to what in the place of the tables; e.g. 9 right, 1 refused."""
    found = Counter(
        told(c.outcome).partition(" in ")[0].partition(" (")[0] for r in rows if (c := row_at(catalog, op, r))
    )
    left = len(rows) - sum(found.values())
    told_of = [f"{n} {what}" for what, n in found.most_common()]
    return ", ".join([*told_of, *([f"{left} unknown"] if left else [])])


def of_operator(target: str, backend: str) -> str:
    """Of a line of op-support.csv: by precision what ExecuTorch's flow made of it, with what, where and when.

    "unknown" without evidence.
    """
    lines = []
    for precision in PRECISIONS:
        mine = [c for c in cells("torch", target) if (c.row, c.run.backend) == (precision, backend)]
        for run in sorted({(c.run.flow, c.run.sdk, c.run.execution, c.run.date) for c in mine}):
            there = [c for c in mine if (c.run.flow, c.run.sdk, c.run.execution, c.run.date) == run]
            flow, sdk, execution, date = run
            chips = " ".join(sorted({c.run.soc for c in there}))
            lines.append(
                f"{precision}: {of_chips(there)} ({flow}, {backend} {sdk}, {execution}, {chips}, {date})"
            )
    return "\n".join(lines) or "unknown"
