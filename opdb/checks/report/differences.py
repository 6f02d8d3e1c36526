"""Writes the differences of a model between targets: for terminals, Markdown, JSON, an HTML page.  The summaries come first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from opdb.checks.coverage import Coverage, Row
from opdb.checks.differences import KINDS, Difference, NodeChange, heading, summary
from opdb.checks.report.plain import MANY, escaped, nearest, told, warned
from opdb.checks.report.several import overview_markdown, overview_table, page_of, place
from opdb.checks.side_by_side import reason
from opdb.core import pages
from opdb.judge.errata.report import ErratumCount
from opdb.core.names import counted

FORMATS = ("table", "json", "md", "html")
#: Kind of change -> the heading above its nodes, with A and B for the targets.
HEADS = {
    "lost": "refused by {b}, taken by {a}",
    "gained": "taken by {b}, refused by {a}",
    "reasons": "refused by both, for other reasons",
    "ops": "other ops",
    "types": "other types",
    "errata": "other errata",
    "warnings": "other warnings",
    "gone": "in the graph of {a} alone",
    "new": "in the graph of {b} alone",
}
assert HEADS.keys() == KINDS.keys()


def document(found: Sequence[Difference], coverages: Sequence[Coverage], title: str) -> dict[str, Any]:
    """The object that ``opdb diff --model --json`` prints; stable keys."""
    return {
        "model": title,
        "targets": [
            {key: value for key, value in c.to_json().items() if key != "rows"} for c in coverages
        ],
        "differences": [d.to_json() for d in found],
    }


def lines(
    found: Sequence[Difference], coverages: Sequence[Coverage], format_: str, title: str, last: str
) -> Iterator[str]:
    """The report line by line, without line ends.  ``format_``: json, md or html.  ``last``: a last line."""
    if format_ == "json":
        text = json.dumps(document(found, coverages, title), indent=2, ensure_ascii=False, default=str)
        return iter(text.splitlines())
    if format_ == "html":
        return iter([_page(found, coverages, title, last)])
    return _markdown(found, coverages, title, last)


def summaries(found: Sequence[Difference]) -> Iterator[str]:
    """For each comparison its heading and, two columns further in, its summary."""
    for place, d in enumerate(found):
        yield heading(d)
        yield from (f"  {line}" for line in summarized(d, found[:place]))


def summarized(d: Difference, before: Sequence[Difference]) -> Iterator[str]:
    """The summary of a comparison, or that it is that of an earlier one.  ``before``: the earlier ones."""
    same = repeats(d, before)
    return iter([f"the same as in {heading(same)}"]) if same and d.any else summary(d)


def repeats(d: Difference, before: Sequence[Difference]) -> Difference | None:
    """The earlier comparison with the same result."""
    return next((other for other in before if other.alike(d)), None)


def told_apart(found: Sequence[Difference]) -> list[Difference]:
    """The comparisons with something to tell of nodes or errata that no earlier one tells."""
    return [
        d
        for place, d in enumerate(found)
        if (d.changes or d.errata_gone or d.errata_new) and not repeats(d, found[:place])
    ]


def details(found: Difference, verbose: bool = False) -> Iterator[str]:
    """The errata and the nodes that change; ``verbose``: all names of nodes that change alike, all reasons and all ops."""
    yield heading(found)
    for line in _errata(found):
        yield f"  {line}"
    for kind, groups in _by_kind(found, verbose):
        yield f"  {kind}"
        for group in groups:
            row = group[0].row
            yield f"    {_names(group, verbose)}  {row.target}"
            yield from (f"      {line}" for line in _sides(found, group[0], verbose))
            if at := place(row):
                yield f"      at {at}"


def _errata(found: Difference) -> Iterator[str]:
    a, b = found.names
    yield from (f"on {a} alone: {_erratum(e)}" for e in found.errata_gone)
    yield from (f"on {b} alone: {_erratum(e)}" for e in found.errata_new)


def _erratum(erratum: ErratumCount) -> str:
    return f"{erratum.erratum} in {erratum.nodes} node{'s' * (erratum.nodes != 1)}: {erratum.title}"


def _by_kind(found: Difference, verbose: bool = False) -> Iterator[tuple[str, list[list[NodeChange]]]]:
    """Each kind's heading with its changes; those of equal text and operator are one group."""
    a, b = found.names
    for kind, words in HEADS.items():
        groups: dict[tuple[str, ...], list[NodeChange]] = {}
        for change in found.of(kind):
            groups.setdefault((change.row.target, *_sides(found, change, verbose)), []).append(change)
        if groups:
            yield words.format(a=a, b=b), list(groups.values())


def _names(group: Sequence[NodeChange], every: bool = False) -> str:
    names = [c.row.node for c in group]
    if every or len(names) <= MANY:
        return ", ".join(names)
    return f"{', '.join(names[:MANY])} and {len(names) - MANY} more"


def _sides(found: Difference, change: NodeChange, verbose: bool = False) -> list[str]:
    """The answer of each target about a node."""
    texts = _texts(change, verbose)
    return [f"{name}: {text}" for name, text in zip(found.names, texts, strict=True) if text]


def _texts(change: NodeChange, verbose: bool = False) -> tuple[str, str]:
    """The answers of the two targets about a node; "" where it is not in the graph."""
    one, two = (("" if row is None else _said(row, change.kind, verbose)) for row in (change.before, change.after))
    if change.kind == "ops" and not verbose and change.before and change.after:
        return _few_ops(change.before, change.after), _few_ops(change.after, change.before)
    return one, two


def _few_ops(row: Row, other: Row) -> str:
    """The ops of a node; of a long chain how many, and those that the other target has fewer of."""
    if len(row.ops) <= MANY:
        return _ops(row)
    more = Counter(row.ops) - Counter(other.ops)
    own = ", ".join(f"{n} {op}" for op, n in more.items())
    return f"{counted(len(row.ops), 'op')}" + (f"; only here: {own}" if own else "")


def _said(row: Row, kind: str, verbose: bool) -> str:
    if row.verdict != "supported":
        every = "; ".join(told(row)) or reason(row)
        return every if verbose else "; ".join([reason(row).removeprefix(f"{row.target}: "), *nearest(row)])
    ops = _ops(row) if verbose or len(row.ops) <= MANY else f"{row.form}, {counted(len(row.ops), 'op')}"
    if kind == "types":
        return "; ".join([f"{ops} in {row.types}" if row.types else ops, *row.said])
    if kind == "errata":
        met = [f"avoids {e}" for e in row.avoided] + [f"may meet {e}" for e in row.warned]
        return ", ".join(met) or "none"
    if kind == "warnings":
        return "; ".join(warned(row)) or "none"
    return ops


def _ops(row: Row) -> str:
    return " -> ".join(row.ops) or row.form or "nothing to compute"


def _markdown(
    found: Sequence[Difference], coverages: Sequence[Coverage], title: str, last: str
) -> Iterator[str]:
    yield from (f"# What changes for {escaped(title)}", "")
    for at, d in enumerate(found):
        yield f"- {escaped(heading(d))}"
        yield from (f"  - {escaped(line)}" for line in summarized(d, found[:at]))
    yield ""
    yield from overview_markdown(coverages)
    for d in told_apart(found):
        yield from ("", f"## {escaped(heading(d))}", "")
        yield from (f"- {escaped(line)}" for line in _errata(d))
        if d.changes:
            yield from ("", "| change | node | operator | " + " | ".join(map(escaped, d.names)) + " | at |")
            yield "|---|---|---|---|---|---|"
            for cells in _cells(d):
                yield "| " + " | ".join(map(escaped, cells)) + " |"
    if last:
        yield from ("", escaped(last))


def _cells(found: Difference) -> Iterator[list[str]]:
    """A line for each changed node: kind, name, operator, what each target says, place."""
    for kind, groups in _by_kind(found):
        for change in (c for group in groups for c in group):
            yield [kind, change.row.node, change.row.target, *_texts(change), place(change.row)]


def _page(found: Sequence[Difference], coverages: Sequence[Coverage], title: str, last: str) -> str:
    """An HTML page that needs no script.  Raises OpdbError if it would exceed the size limit of pages."""
    body = []
    for at, d in enumerate(found):
        items = "".join(f"<li>{pages.text(line)}</li>" for line in summarized(d, found[:at]))
        body.append(f"<p><b>{pages.text(heading(d))}</b></p><ul>{items}</ul>")
    body.append(overview_table(coverages))
    for d in told_apart(found):
        body.append(f"<h2>{pages.text(heading(d))}</h2>")
        if errata := list(_errata(d)):
            body.append("<ul>" + "".join(f"<li>{pages.text(line)}</li>" for line in errata) + "</ul>")
        if d.changes:
            body.append(pages.table(("change", "node", "operator", *d.names, "at"), list(_cells(d))))
    if last:
        body.append(f'<p class="quiet">{pages.text(last)}</p>')
    made = page_of(f"What changes for {title}", body)
    return pages.checked(made, "--format json, md or table has every node of a model of this size")
