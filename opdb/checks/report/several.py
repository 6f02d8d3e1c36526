"""Coverages of one model by several targets as text: Markdown, JSON, an HTML page, SARIF and JUnit for other tools."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from opdb.checks.coverage import Coverage, Row
from opdb.checks.report.plain import escaped, markdown, told
from opdb.checks.side_by_side import COLUMNS, labels, overview
from opdb.core import pages
from opdb.core.pages import text
from opdb.core.names import counted


def lines(coverages: Sequence[Coverage], format_: str, title: str) -> Iterator[str]:
    """The report line by line, without line ends.  ``format_``: one of FORMATS but table.  ``title``: the model, as named."""
    if format_ == "json":
        document = json.dumps([c.to_json() for c in coverages], indent=2, ensure_ascii=False, default=str)
        return iter(document.splitlines())
    if format_ == "html":
        return iter([page(coverages, title)])
    if format_ == "sarif":
        from opdb.checks.report.sarif import sarif

        return iter(sarif(coverages, title).splitlines())
    if format_ == "junit":
        from opdb.checks.report.junit import junit

        return iter(junit(coverages, title).splitlines())
    return _markdown(coverages, title)


def _markdown(coverages: Sequence[Coverage], title: str) -> Iterator[str]:
    """The overview, then what Markdown has for one target, for each."""
    yield from (f"# {escaped(title)} on {counted(len(coverages), 'target')}", "")
    yield from overview_markdown(coverages)
    for coverage in coverages:
        yield ""
        yield from markdown(coverage, title)


def overview_markdown(coverages: Sequence[Coverage]) -> Iterator[str]:
    """The overview as a table in Markdown."""
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|" + "---|" * len(COLUMNS)
    for row in overview(coverages):
        yield "| " + " | ".join(escaped(str(row[c])) for c in COLUMNS) + " |"


def page(coverages: Sequence[Coverage], title: str) -> str:
    """An HTML page that needs no script: the overview, and the nodes that some target does not take.

    Raises OpdbError if it would exceed the size limit of pages.
    """
    heads = labels(coverages)
    body = [overview_table(coverages)]
    nodes = list(_matrix(coverages))
    if nodes:
        body.append("<h2>Nodes that some target leaves to the CPU</h2>")
        body.append(pages.table(("node", "operator", "at", *heads), nodes))
    else:
        body.append("<p>Every target takes every node.</p>")
    made = page_of(f"{title} on {counted(len(coverages), 'target')}", body)
    return pages.checked(made, "--format json, md or table has every node of a model of this size")


def page_of(title: str, body: Sequence[str]) -> str:
    """A page with this title and these parts."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{text(title)}</title><link rel="icon" href="data:,"><style>\n{pages.style()}</style></head>\n'
        f"<body><main><h1>{pages.broken(title)}</h1>\n" + "\n".join(body) + "\n</main></body></html>"
    )


def overview_table(coverages: Sequence[Coverage]) -> str:
    """The overview as a table in HTML."""
    return pages.table(COLUMNS, [[str(row[c]) for c in COLUMNS] for row in overview(coverages)], (3,))


def _matrix(coverages: Sequence[Coverage]) -> Iterator[list[str]]:
    """A line for each node that some target does not take: its name, operator and place, and its cell for each target."""
    for row in coverages[0].rows:
        found = [next((r for r in c.rows if r.node == row.node), None) for c in coverages]
        if any(r is None or r.verdict != "supported" for r in found):
            yield [row.node, row.target, place(row), *map(_cell, found)]


def _cell(row: Row | None) -> str:
    if row is None:
        return "not in this graph"
    if row.verdict == "supported":
        return f"{row.verdict}: {' -> '.join(row.ops)}"
    return f"{row.verdict}: {'; '.join(told(row)) or 'opdb does not map this operator'}"


def place(row: Row) -> str:
    """The module and the line that a node comes from."""
    file, _, rest = row.line.partition(":")
    line = f"{file or Path(row.file).name}:{rest.partition(':')[0]}" if rest else row.line
    return " ".join(p for p in (row.module, line) if p)
