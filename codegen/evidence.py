"""What the evidence that opdb ships says, as generated pages and tables show it: out of the database of the catalogue.

A catalogue that was read from files, which no database has, comes without evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from opdb.catalog.evidence import STAGES, Cell
from opdb.catalog.evidence.text import of_chips, provenance, told
from opdb.catalog.store.facts import Facts
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Measured
from opdb.spec.catalog import Catalog

#: The precisions of ExecuTorch's whole flow, in the order of tables.
PRECISIONS = ("float", "8a8w", "16a8w")
Place = tuple[str, str]  # backend, SDK


def facts(catalog: Catalog) -> Facts | None:
    """What the database of a catalogue says of it; None for one that was read from files."""
    return catalog.facts if isinstance(catalog.facts, Facts) else None


def key(catalog: Catalog) -> str:
    """Names the evidence for what remembers what it was made from."""
    found = facts(catalog)
    return "" if found is None else found.evidence


def input_path() -> str:
    """The file among the inputs of an artifact."""
    return "opdb/catalog/evidence/shipped.jsonl.gz"


def page(
    catalog: Catalog, op: str, rows: Sequence[str]
) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
    """(libraries, (row, a cell for each library), what was asked and when) of an op's page; nothing without evidence."""
    known = facts(catalog)
    found = () if known is None else known.of_op(op)
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


def here(catalog: Catalog, backend: str) -> Mapping[tuple[str, str], Cell]:
    """The cells in the place of the tables, by op and type row."""
    place, found = at(catalog, backend), facts(catalog)
    return {} if place is None or found is None else found.at(backend, place.sdk, place.soc or "")


def columns(cell: Cell | None) -> tuple[str, ...]:
    """Of a line of support.csv: the statuses, the number of cases, in words, the erratum, with what and when."""
    if cell is None:
        return ("unknown",) * len(STAGES) + ("",) * 4
    run, outcome = cell.run, cell.outcome
    where = " ".join(filter(None, (run.library, run.soc, run.execution)))
    return (*outcome.statuses, str(outcome.cases), told(outcome), where, run.date)


def of_configurations(cells: Mapping[tuple[str, str], Cell], op: str, rows: Sequence[str]) -> str:
    """Of a cell of support.md: how many type rows came to what in the place of the tables; e.g. 9 right, 1 refused."""
    found = Counter(
        told(c.outcome).partition(" in ")[0].partition(" (")[0] for r in rows if (c := cells.get((op, r)))
    )
    left = len(rows) - sum(found.values())
    told_of = [f"{n} {what}" for what, n in found.most_common()]
    return ", ".join([*told_of, *([f"{left} unknown"] if left else [])])


def of_operator(cells: Sequence[Cell], backend: str) -> str:
    """Of a line of op-support.csv: by precision what ExecuTorch's flow made of it, with what, where and when.

    "unknown" without evidence.
    """
    lines = []
    for precision in PRECISIONS:
        mine = [c for c in cells if c.row == precision]
        for run in sorted({(c.run.flow, c.run.sdk, c.run.execution, c.run.date) for c in mine}):
            there = [c for c in mine if (c.run.flow, c.run.sdk, c.run.execution, c.run.date) == run]
            flow, sdk, execution, date = run
            chips = " ".join(sorted({c.run.soc for c in there}))
            lines.append(
                f"{precision}: {of_chips(there)} ({flow}, {backend} {sdk}, {execution}, {chips}, {date})"
            )
    return "\n".join(lines) or "unknown"
