"""Rows and documents -> text on standard output."""

from __future__ import annotations

import csv
import html
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opdb.cli.options import Format


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def print_json_line(document: Any) -> None:
    print(json.dumps(document, ensure_ascii=False, default=str))


def cell(value: Any) -> str:
    """A value in a table: lists joined, nothing for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k}: {cell(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(cell(v) for v in value)
    return str(value)


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], format_: Format, title: str = ""
) -> None:
    """Rows as a table (columns without any value are left out), CSV, Markdown, HTML or JSON."""
    if format_ is Format.json:
        print_json(list(rows))
    elif format_ is Format.csv:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([cell(row[c]) for c in columns] for row in rows)
        print(out.getvalue(), end="")
    elif format_ is Format.md:
        print(_markdown(rows, columns))
    elif format_ is Format.html:
        print(_html(rows, columns, title))
    else:
        _table(rows, columns)


def _markdown(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> str:
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += [
        "| " + " | ".join(cell(r[c]).replace("|", "\\|").replace("\n", " ") for c in columns) + " |"
        for r in rows
    ]
    return "\n".join(lines)


def _html(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], title: str) -> str:
    def tr(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    head = f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
    rules = "td,th{border:1px solid #ccc;padding:2px 6px;text-align:left}"
    style = f"<style>body{{font:14px sans-serif}}table{{border-collapse:collapse}}{rules}</style>"
    body = "\n".join(tr((cell(r[c]) for c in columns), "td") for r in rows)
    return (
        f"{head}{style}\n<h1>{html.escape(title)}</h1>\n<table>\n{tr(columns, 'th')}\n{body}\n</table></html>"
    )


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    shown = [c for c in columns if any(cell(r[c]) for r in rows)] or list(columns)
    if not rows:
        print("no rows", file=sys.stderr)
        return
    if not sys.stdout.isatty():
        texts = [[cell(r[c]) for c in shown] for r in rows]
        widths = [max(len(c), *(min(len(t[i]), 60) for t in texts)) for i, c in enumerate(shown)]
        for line in [list(shown), ["-" * w for w in widths], *texts]:
            print("  ".join(t.ljust(w) for t, w in zip(line, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in shown:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(cell(row[c]) for c in shown))
    Console().print(table)
