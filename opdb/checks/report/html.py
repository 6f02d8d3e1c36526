"""A coverage as one HTML file that needs no other file or network: the graph folded by module, and a table of all nodes.

Python puts the data in; the page's own scripts (page.html, graph.js) draw the part in sight, so that a page of
thousands of nodes opens at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opdb.core import pages
from opdb.checks.coverage import VERDICTS, Coverage, Row
from opdb.checks.report.folds import Fold, folded
from opdb.checks.report.plain import COUNTED, LEFT, WHY, by_operator, notes, told, why
from opdb.judge.errata.report import amount
from opdb.core.pages import text

#: The fields of a row in the page, in this order; a text other than the node's name is its place in ``texts``.
FIELDS = ("node", "verdict", "graph", "module", "target", "ops", "told", "notes", "line", "file", "flops", "bytes", "reads", "types")


def page(coverage: Coverage, title: str) -> str:
    """The whole page as text.  Raises OpdbError if it would exceed the size limit of pages."""
    place = " ".join(p for p in (coverage.backend, coverage.soc, coverage.sdk and f"SDK {coverage.sdk}") if p)
    parts = {
        "TITLE": text(f"{title} on {place}"),
        "SUMMARY": _summary(coverage),
        "TILES": _tiles(coverage),
        "LEFT": _left(coverage),
        "STYLE": pages.style(pages.resource("page.css", __package__)),
        "GRAPH": pages.resource("graph.js", __package__),
        "DATA": pages.embedded(data(coverage)),
    }
    made = pages.filled(pages.resource("page.html", __package__), parts)
    return pages.checked(made, "--format json, md or table has every node of a model of this size")


def data(coverage: Coverage) -> dict[str, Any]:
    """The data that the page draws: rows by FIELDS, each text once, and the tree of modules."""
    texts: dict[str, int] = {}
    places = {r.node: i for i, r in enumerate(coverage.rows)}
    quantized = coverage.any_quantized

    def known(words: str) -> int:
        return texts.setdefault(words, len(texts))

    def row(r: Row) -> list[Any]:
        return [
            r.node, VERDICTS.index(r.verdict), r.graph or 0, known(r.module), known(r.target), known(" ".join(r.ops)),
            [known(t) for t in dict.fromkeys(told(r))], [known(t) for t in _notes(r)], known(r.line),
            known(Path(r.file).as_uri() if r.file else ""), r.flops, r.bytes, [places[n] for n in r.reads if n in places],
            known(r.types if quantized else ""),
        ]  # fmt: skip

    return {
        "place": coverage.backend,
        "verdicts": VERDICTS,
        "fields": FIELDS,
        "rows": [row(r) for r in coverage.rows],
        "texts": list(texts),
        "tree": _tree(folded([r.module for r in coverage.rows], [r.node for r in coverage.rows])),
    }


def _tree(fold: Fold) -> list[Any]:
    """[name, child, ...]; a child is a place or another such list."""
    return [fold.name, *(c if isinstance(c, int) else _tree(c) for c in fold.children)]


def _notes(row: Row) -> list[str]:
    """The reasons that forms before the accepted one were refused, and warnings."""
    refused = [f"{q['rule']}: {q['brief']}" for q in row.reasons] if row.verdict == "supported" else []
    return refused + [f"{w['rule']}: {w['message']}" for w in row.warnings]


def _tiles(coverage: Coverage) -> str:
    whole = coverage.cost()
    found = []
    for verdict in VERDICTS:
        cost = coverage.cost(verdict)
        share = f"{amount(cost['flops'])} of {amount(whole['flops'])} FLOPs, {amount(cost['bytes'])} bytes"
        found.append(f'<li class="{verdict}"><b>{cost["nodes"]}</b> {verdict}<br><span>{share}</span></li>')
    found.append(f"<li><b>{coverage.partitions}</b> graph{'s' * (coverage.partitions != 1)}</li>")
    return "".join(found)


def _summary(coverage: Coverage) -> str:
    """The answer, and notes."""
    said = [coverage.about] if coverage.about else []
    lines = "".join(f"<p>{text(line)}</p>" for line in (*said, *notes(coverage)))
    return f"<p><strong>{text(coverage.answer.sentence)}</strong></p>{lines}"


def _left(coverage: Coverage) -> str:
    """Why nodes fall back to the CPU, and which operators; "" if none does."""
    if coverage.complete:
        return ""
    return (
        '<section class="left" aria-labelledby="h-why"><h2 id="h-why">Why nodes fall back to the CPU</h2>'
        f'{pages.table(WHY, list(why(coverage)), (0,))}</section>\n'
        '<section class="left" aria-labelledby="h-left"><h2 id="h-left">Left to the CPU</h2>'
        f'{pages.table(LEFT, list(by_operator(coverage)), (2, 3, 4))}<p class="quiet">{text(COUNTED)}</p></section>'
    )
