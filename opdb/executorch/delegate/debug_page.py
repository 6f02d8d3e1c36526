"""The report of ``opdb debug`` as one HTML page: a bar for each op, as long as its time, in the color of its distance from PyTorch."""

from __future__ import annotations

import html

from opdb.executorch.delegate.debug import OpRow, Report

WIDTH, ROW, LEFT = 900, 22, 330
#: A bar's color by what its op is off, in parts of the tolerance.
COLORS = ((0.1, "#6aaf6a"), (1.0, "#d9b44a"))
FAR, UNKNOWN = "#c94f4f", "#b8b8b8"
STYLE = (
    "body{font:14px sans-serif;margin:20px}table{border-collapse:collapse;margin-top:20px}"
    "td,th{border:1px solid #ccc;padding:2px 6px;text-align:left;vertical-align:top}th{background:#eee}"
    "code{font-size:12px}svg text{font:12px sans-serif}"
)


def page(report: Report, title: str) -> str:
    """The page; it needs no other file."""
    safe = html.escape(title)
    first = report.first
    said = (
        f"None of the ops compared is off by more than {report.tolerance:g} times its largest value."
        if first is None
        else f"The first op that departs from PyTorch is <b>{html.escape(first.name)}</b> ({html.escape(first.op)}), "
        f"at <code>{html.escape(first.source)}</code>: off by {first.gap:.3g} times the largest value."
    )
    where = ", ".join(f"instruction {i} on {html.escape(name)}" for i, name in report.backends.items())
    body = "".join(_cells(row, row == first) for row in report.rows)
    heads = "".join(
        f"<th>{h}</th>" for h in ("op", "PyTorch", "source line", "module", "ms", "cycles", "off by")
    )
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{safe}</title><style>{STYLE}</style>\n'
        f"<h1>{safe}</h1>\n<p>{report.method}, average of {report.runs} runs; {where}. Times on HTP are those of the "
        f"emulation.</p>\n<p>{said}</p>\n{_picture(report)}\n<table><thead><tr>{heads}</tr></thead><tbody>\n{body}"
        "</tbody></table></html>\n"
    )


def _picture(report: Report) -> str:
    rows = report.rows
    longest = max((row.ms or 0.0 for row in rows), default=0.0) or 1.0
    bars = []
    for i, row in enumerate(rows):
        length = (row.ms or 0.0) / longest * (WIDTH - LEFT - 130)
        label = f"{row.module or '(model)'}: {row.op}"
        numbers = "" if row.ms is None else f"{row.ms:.4g} ms"
        numbers += "" if row.gap is None else f", {row.gap:.1e}"
        y = i * ROW
        bars.append(
            f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{html.escape(label[-52:])}</text>'
            f'<rect x="{LEFT}" y="{y + 3}" width="{max(length, 1):.1f}" height="{ROW - 6}" fill="{_color(row, report)}">'
            f"<title>{html.escape(row.name)} {html.escape(row.source)}</title></rect>"
            f'<text x="{LEFT + max(length, 1) + 6:.1f}" y="{y + 15}">{numbers}</text>'
        )
    height = len(rows) * ROW + 6
    return f'<svg width="{WIDTH}" height="{height}" role="img" aria-label="Time of each op">{"".join(bars)}</svg>'


def _color(row: OpRow, report: Report) -> str:
    if row.gap is None:
        return UNKNOWN
    return next((color for part, color in COLORS if row.gap <= part * report.tolerance), FAR)


def _cells(row: OpRow, first: bool) -> str:
    gap = row.note if row.gap is None else f"{row.gap:.3g}"
    texts = (
        f"{row.op} {row.name}",
        ", ".join(row.torch),
        f"{row.source} {row.code}",
        row.module,
        "" if row.ms is None else f"{row.ms:.4g}",
        "" if row.cycles is None else f"{row.cycles}",
        gap,
    )
    style = f' style="background:{FAR}33"' if first else ""
    return f"<tr{style}>" + "".join(f"<td>{html.escape(t)}</td>" for t in texts) + "</tr>\n"
