"""Reports of conformance results: a table, JSON, JUnit XML, and one HTML page for people.

text = report(catalog, store, "html", with_gaps=True)
"""

from __future__ import annotations

from pathlib import Path

from opdb import settings
from opdb.catalog import Catalog
from opdb.conformance.quirks import read_quirks
from opdb.conformance.report.rows import Row, read_rows, runs
from opdb.errors import OpdbError
from opdb.query import ask
from opdb.store import Store

FORMATS = ("table", "json", "junit", "html")

__all__ = ["FORMATS", "Row", "read_rows", "report"]


def report(
    catalog: Catalog,
    store: Store,
    format: str = "table",
    *,
    run: int | None = None,
    with_gaps: bool = False,
    specs: Path | str | None = None,
) -> str:
    """The results in SQL as text in one of FORMATS: of one run, or the latest of each case and executor.

    ``with_gaps`` adds the coverage of the rules; ``specs`` is where quirks are read.  The agreement of verdicts
    that ``opdb probe`` found is added to the latest results; table and JSON do with it alone.  Raises OpdbError
    for an unknown format, and where there are no results.
    """
    if format not in FORMATS:
        raise OpdbError(f"no report format '{format}'; known: {', '.join(FORMATS)}")
    rows = read_rows(store, run, read_quirks(settings.specs_folder(specs)))
    agreement = ask(store, "agreement") if run is None and format != "junit" else []
    if not rows and (not agreement or format == "html"):
        which = "" if run is None else f" of run {run}"
        raise OpdbError(f"{store.name}: no results{which}; make some with 'opdb conformance run'")
    from opdb.conformance.gaps import gaps

    coverage = gaps(catalog, store) if with_gaps else None
    past = runs(store, rows)
    if format == "html":
        from opdb.conformance.report import html

        return html.page(rows, past, coverage, agreement)
    if format == "junit":
        from opdb.conformance.report import junit

        return junit.document(rows, coverage)
    from opdb.conformance.report import plain

    if format == "json":
        return plain.document(rows, past, coverage, agreement)
    return plain.table(rows, coverage, agreement)
