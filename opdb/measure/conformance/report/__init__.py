"""Reports of conformance results: a table, JSON, JUnit XML, one HTML page for people, or a folder of pages.

text = report(catalog, store, "html", with_gaps=True)
files = site(catalog, store)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opdb.spec.catalog import Catalog
from opdb.measure.conformance.report.rows import Row, read_rows, runs
from opdb.core.errors import OpdbError
from opdb.core.pages import checked
from opdb.catalog.query import ask
from opdb.catalog.store import Store

FORMATS = ("table", "json", "junit", "html")

__all__ = ["FORMATS", "Row", "Tables", "read_rows", "report", "site", "tables"]


@dataclass(frozen=True)
class Tables:
    """The report in tables, as rows of texts: the results of each op and executor, agreement of verdicts; the gaps as text."""

    results: list[dict[str, Any]]
    agreement: list[dict[str, str]]
    gaps: str


def tables(catalog: Catalog, store: Store, *, run: int | None = None, with_gaps: bool = False) -> Tables:
    """What ``report`` formats as "table".  Raises like it."""
    from opdb.catalog.query.table import agreement_rows
    from opdb.measure.conformance.gaps import gaps
    from opdb.measure.conformance.report import plain

    agreement = ask(store, "agreement") if run is None else []
    rows = _rows(store, run, needed=not agreement)
    text = plain.gaps_table(gaps(catalog, store)) if with_gaps else ""
    return Tables([dict(line) for line in plain.summary(rows)], agreement_rows(agreement), text)


def report(
    catalog: Catalog,
    store: Store,
    format: str = "table",
    *,
    run: int | None = None,
    with_gaps: bool = False,
) -> str:
    """Formats the results in SQL as one of FORMATS: those of one run, or the latest of each case and executor.

    ``with_gaps`` adds the coverage of the rules.  The agreement of verdicts
    found by ``opdb probe`` is added to the latest results; for table and JSON it alone is enough.  Raises OpdbError
    for an unknown format, if there are no results, and for a page of more than 2 MB.
    """
    if format not in FORMATS:
        raise OpdbError(f"no report format '{format}'; known: {', '.join(FORMATS)}")
    agreement = ask(store, "agreement") if run is None and format != "junit" else []
    rows = _rows(store, run, needed=not agreement or format == "html")
    from opdb.measure.conformance.gaps import gaps

    coverage = gaps(catalog, store) if with_gaps else None
    past = runs(store, rows)
    if format == "html":
        from opdb.measure.conformance.report import html

        cure = "opdb conformance report --format html --output DIR writes a page for each op"
        return checked(html.page(rows, past, coverage, agreement), cure)
    if format == "junit":
        from opdb.measure.conformance.report import junit

        return junit.document(rows, coverage)
    from opdb.measure.conformance.report import plain

    if format == "json":
        return plain.document(rows, past, coverage, agreement)
    return plain.table(rows, coverage, agreement)


def site(catalog: Catalog, store: Store, *, run: int | None = None) -> dict[str, str]:
    """Returns the latest results, or those of one run, as files of a folder: text by path.

    Raises OpdbError if there are no results.
    """
    rows = _rows(store, run)
    from opdb.measure.conformance.gaps import gaps
    from opdb.measure.conformance.report import pages
    from opdb.measure.conformance.report.changes import changes

    agreement = ask(store, "agreement") if run is None else []
    covered = gaps(catalog, store, dict.fromkeys(r.op for r in rows))
    return pages.files(rows, runs(store, rows), covered, agreement, changes(store, rows))


def _rows(store: Store, run: int | None, *, needed: bool = True) -> list[Row]:
    rows = read_rows(store, run)
    if needed and not rows:
        which = "" if run is None else f" of run {run}"
        raise OpdbError(f"{store.name}: no results{which}; make some with 'opdb conformance run'")
    return rows
