"""The report of ``opdb debug`` as one HTML page: a bar for each op, as long as its time, colored by its difference from PyTorch."""

from __future__ import annotations

from opdb.core import pages
from opdb.core.names import counted
from opdb.core.pages import broken, text
from opdb.plugins.executorch.delegate.debug import OpRow, Report

#: The kinds of bars and their legends, by an op's difference relative to the tolerance.
NEAR = ((0.1, "near", "at most a tenth of the tolerance"), (1.0, "within", "within the tolerance"))
FAR, UNKNOWN = ("far", "departs from PyTorch"), ("unknown", "not compared")
HEAD = ("module", "op", "PyTorch", "source line", "ms", "cycles", "off by")
STYLE = """:root { --near: #1a7f37; --within: #9a6700; --far: #cf222e; --unknown: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --near: #3fb950; --within: #d29922; --far: #ff7b72; --unknown: #8b949e; } }
.bar .near { background: var(--near); } .bar .within { background: var(--within); } .bar .far { background: var(--far); }
.bar .unknown { background: var(--unknown); }
.legend .bar i { width: 24px; margin: 0; } tr.first > * { background: var(--no-back); } .first code { color: var(--ink); }
"""


def page(report: Report, title: str) -> str:
    """The self-contained HTML page.  Raises OpdbError if it would exceed the size limit of pages."""
    first = report.first
    said = (
        f"None of the ops compared is off by more than {report.tolerance:g} times its largest value."
        if first is None
        else f"The first op that departs from PyTorch is <b>{broken(first.name)}</b> ({text(first.op)}), "
        f"at <code>{broken(first.source)}</code>: off by {first.gap:.3g} times the largest value."
    )
    where = ", ".join(f"instruction {i} on {text(name)}" for i, name in report.backends.items())
    kinds = ((kind, words) for *_, kind, words in (*NEAR, FAR, UNKNOWN))
    legend = "".join(
        f'<li><span class="bar"><i class="{kind}"></i></span>{words}</li>' for kind, words in kinds
    )
    heads = "".join(f'<th scope="col"{_number(h)}>{h}</th>' for h in HEAD)
    made = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width, initial-scale=1"><title>{text(title)}</title><link rel="icon" href="data:,">'
        f"<style>\n{pages.style(STYLE)}</style></head><body><main>\n<h1>{broken(title)}</h1>\n"
        f"<p>{report.method}, average of {counted(report.runs, 'run')}; {where}. Times on HTP are those of the emulation.</p>\n"
        f'<p>{said}</p>\n<h2>Time of each op</h2><ul class="legend">{legend}</ul>\n'
        f'<table class="bars"><tbody>{_bars(report)}</tbody></table>\n<h2>Ops</h2>\n'
        f'<table class="cards"><thead><tr>{heads}</tr></thead><tbody>\n'
        f"{''.join(_cells(row, row == first) for row in report.rows)}</tbody></table></main></body></html>\n"
    )
    return pages.checked(made, "--format csv or json has every op of a program of this size")


def _bars(report: Report) -> str:
    longest = max((row.ms or 0.0 for row in report.rows), default=0.0) or 1.0
    return "".join(
        f'<tr><th scope="row">{broken(row.module or "(model)")}: {text(row.op)}</th>'
        f'<td class="bar"><i class="{_kind(row, report)}" style="width:{(row.ms or 0.0) / longest:.1%}" '
        f'title="{text(f"{row.name} {row.source}")}"></i></td><td>{_said(row)}</td></tr>'
        for row in report.rows
    )


def _said(row: OpRow) -> str:
    parts = ["" if row.ms is None else f"{row.ms:.4g} ms", "" if row.gap is None else f"off by {row.gap:.1e}"]
    return ", ".join(p for p in parts if p)


def _kind(row: OpRow, report: Report) -> str:
    if row.gap is None:
        return UNKNOWN[0]
    return next((kind for part, kind, _ in NEAR if row.gap <= part * report.tolerance), FAR[0])


def _cells(row: OpRow, first: bool) -> str:
    gap = row.note if row.gap is None else f"{row.gap:.3g}"
    texts = (
        row.module,
        f"{row.op} {row.name}",
        ", ".join(row.torch),
        f"{row.source} {row.code}",
        "" if row.ms is None else f"{row.ms:.4g}",
        "" if row.cycles is None else f"{row.cycles}",
        gap,
    )
    cells = "".join(
        f'<td data-l="{h}"{_number(h)}>{broken(t)}</td>' for h, t in zip(HEAD, texts, strict=True)
    )
    return f"<tr{' class=first' if first else ''}>{cells}</tr>\n"


def _number(head: str) -> str:
    return ' class="n"' if head in ("ms", "cycles") else ""
