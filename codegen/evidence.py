"""The shipped evidence for generated pages and tables, from the catalog's database.

A catalog read from files, without a database, has no evidence.
"""

from __future__ import annotations

from collections.abc import Mapping

from opdb.catalog.evidence import STAGES, Cell
from opdb.catalog.evidence.text import told
from opdb.catalog.store.facts import Facts
from opdb.spec.backend import Measured
from opdb.spec.catalog import Catalog

Place = tuple[str, str]  # backend, SDK


def facts(catalog: Catalog) -> Facts | None:
    """The facts from a catalog's database; None for a catalog read from files."""
    return catalog.facts if isinstance(catalog.facts, Facts) else None


def key(catalog: Catalog) -> str:
    """The hash of the evidence, for caches; "" without evidence."""
    found = facts(catalog)
    return "" if found is None else found.evidence


def input_path() -> str:
    """The evidence file, as an input of an artifact."""
    return "opdb/catalog/evidence/shipped.jsonl.gz"


def at(catalog: Catalog, backend: str) -> Measured | None:
    """The SDK and chip of specs/backends for which the tables show a backend."""
    known = catalog.backends.get(backend)
    return None if known is None else known.measured


def here(catalog: Catalog, backend: str) -> Mapping[tuple[str, str], Cell]:
    """The cells for the tables' SDK and chip, by op and type row."""
    place, found = at(catalog, backend), facts(catalog)
    return {} if place is None or found is None else found.at(backend, place.sdk, place.soc or "")


def columns(cell: Cell | None) -> tuple[str, ...]:
    """Columns of a line of support.csv: the statuses, the number of cases, the outcome in words, the library, the date."""
    if cell is None:
        return ("unknown",) * len(STAGES) + ("",) * 4
    run, outcome = cell.run, cell.outcome
    where = " ".join(filter(None, (run.library, run.soc, run.execution)))
    return (*outcome.statuses, str(outcome.cases), told(outcome), where, run.date)
