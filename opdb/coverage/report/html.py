"""A coverage as one HTML file without any other file or network.

The rows are plain HTML, readable without scripts; the page's script (page.html) filters them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from opdb.coverage.check import VERDICTS, Coverage, Row
from opdb.coverage.report.plain import COUNTED, summary, told
from opdb.errata.report import amount

COLUMNS = ("verdict", "module and line", "operator", "ops or reasons", "FLOPs", "bytes", "node")

NUMBERS = ("FLOPs", "bytes")


def page(coverage: Coverage, title: str) -> str:
    """The whole page as text."""
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    place = " ".join(p for p in (coverage.backend, coverage.soc, coverage.sdk and f"SDK {coverage.sdk}") if p)
    parts = {
        "TITLE": _text(f"{title} on {place}"),
        "SUMMARY": "".join(f"<p>{_text(line)}</p>" for line in summary(coverage))
        + f'<p class="quiet">{_text(COUNTED)}</p>',
        "TILES": _tiles(coverage),
        "VERDICTS": _options(VERDICTS),
        "TARGETS": _options(sorted({r.target for r in coverage.rows})),
        "OPS": _options(sorted({op for r in coverage.rows for op in r.ops})),
        "HEAD": "".join(f"<th scope=col{' class=n' if c in NUMBERS else ''}>{c}</th>" for c in COLUMNS),
        "ROWS": "\n".join(_row(r) for r in coverage.rows),
    }
    return filled(template, parts)


def filled(template: str, parts: Mapping[str, str]) -> str:
    """A page with a part in the place of each ``<!--NAME-->``."""
    pieces = template.split("<!--")  # each piece but the first begins with the name of a part
    out = [pieces[0]]
    for piece in pieces[1:]:
        name, _, rest = piece.partition("-->")
        out += [parts[name], rest]
    return "".join(out)


def _tiles(coverage: Coverage) -> str:
    whole = coverage.cost()
    found = []
    for verdict in VERDICTS:
        cost = coverage.cost(verdict)
        share = f"{amount(cost['flops'])} of {amount(whole['flops'])} FLOPs, {amount(cost['bytes'])} bytes"
        found.append(f'<li class="{verdict}"><b>{cost["nodes"]}</b> {verdict}<br><span>{share}</span></li>')
    found.append(f"<li><b>{coverage.partitions}</b> graphs</li>")
    return "".join(found)


def _row(row: Row) -> str:
    """Data attributes are what the filters read."""
    ident = html.escape(f"node-{row.node}", quote=True)
    module = f'<a href="#" data-go="{_text(row.module)}">{_broken(row.module)}</a>' if row.module else ""
    cells = (
        f'<td class="v">{row.verdict}</td>',
        _cell(COLUMNS[1], f"{module}{'<br>' if module and row.line else ''}<small>{_line(row)}</small>"),
        _cell(COLUMNS[2], _broken(row.target)),
        _cell(COLUMNS[3], _told(row)),
        _cell("FLOPs", _number(row.flops), "n"),
        _cell("bytes", _number(row.bytes), "n"),
        f'<th scope=row data-l="node"><a href="#{ident}">{_broken(row.node)}</a></th>',
    )
    data = f'data-v="{row.verdict}" data-t="{_text(row.target)}" data-o="{_text(" ".join(row.ops))}" data-m="{_text(row.module)}"'
    return f'<tr id="{ident}" class="{row.verdict}" {data}>{"".join(cells)}</tr>'


def _cell(label: str, content: str, kind: str = "") -> str:
    """``label``: what the cell is called where the table has no room for a head."""
    return f'<td{f" class={kind}" if kind else ""} data-l="{label}">{content}</td>'


def _broken(name: str) -> str:
    """A name, or a line of code, that may be broken behind a mark, and nowhere else."""
    return re.sub(r"([._/(,])(?=.)", r"\1<wbr>", _text(name))


def _told(row: Row) -> str:
    said = [_text(t) for t in told(row)]
    more = [*(f"{w['rule']}: {w['message']}" for w in row.warnings)]
    if row.verdict == "supported":
        more = [*(f"{q['rule']}: {q['brief']}" for q in row.reasons), *more]
    notes = "".join(f"<li>{_text(m)}</li>" for m in more)
    extra = f"<details><summary>notes</summary><ul>{notes}</ul></details>" if notes else ""
    return (said[0] if len(said) == 1 else "<ul>" + "".join(f"<li>{s}</li>" for s in said) + "</ul>") + extra


def _line(row: Row) -> str:
    """A link to the file where its place is known."""
    if not row.file:
        return _broken(row.line)
    return f'<a href="{html.escape(Path(row.file).as_uri(), quote=True)}" title="{_text(row.file)}">{_broken(row.line)}</a>'


def _number(value: int | None) -> str:
    return f'<span title="{value}">{amount(value)}</span>' if value is not None else "?"


def _options(values: tuple[str, ...] | list[str]) -> str:
    return "".join(f"<option>{_text(v)}</option>" for v in values)


def _text(text: str) -> str:
    return html.escape(text, quote=True)
