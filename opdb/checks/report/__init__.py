"""A coverage as text: a table for terminals, Markdown, JSON, an HTML page, SARIF and JUnit for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator

from opdb.checks.coverage import Coverage
from opdb.checks.report.plain import markdown, table

FORMATS = ("table", "json", "md", "html", "sarif", "junit")

__all__ = ["FORMATS", "lines", "markdown", "table"]


def lines(coverage: Coverage, format_: str, title: str, verbose: bool = False) -> Iterator[str]:
    """The report line by line, without line ends.  ``format_``: one of FORMATS.  ``title``: the model, as named.  ``verbose``: see ``table``."""
    if format_ == "json":
        text = json.dumps(coverage.to_json(), indent=2, ensure_ascii=False, default=str)
        return iter(text.splitlines())
    if format_ == "html":
        from opdb.checks.report.html import page

        return iter([page(coverage, title)])
    if format_ == "sarif":
        from opdb.checks.report.sarif import sarif

        return iter(sarif([coverage], title).splitlines())
    if format_ == "junit":
        from opdb.checks.report.junit import junit

        return iter(junit([coverage], title).splitlines())
    return markdown(coverage, title) if format_ == "md" else table(coverage, verbose)
