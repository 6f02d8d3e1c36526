"""Writes rows and documents as text to standard output or a file."""

from __future__ import annotations

import csv
import html
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from opdb.catalog.evidence.status import EXCEPT, NO, YES
from opdb.cli.options import Format
from opdb.cli.screen import is_terminal, print_whole
from opdb.cli.screen_table import Layout, print_table
from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.pages import NARROW, broken, style

Rows = Iterable[Mapping[str, Any]]
#: The screen width in pixels that a column of a table needs.
COLUMN = 90
#: The background of cells that begin with these words, by its name in the style of all pages.
_COLORS = {"yes": "yes", "no": "no", "crashed": "no", "hung": "no", "except": "host"}


def print_json(document: Any) -> None:
    print_whole(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def print_json_line(document: Any) -> None:
    print_whole(json.dumps(document, ensure_ascii=False, default=str))


@contextmanager
def written_to(output: Path | None) -> Iterator[None]:
    """Writes what is printed meanwhile to a file, whole or not at all, and says so on stderr; without a file changes nothing."""
    if output is None:
        yield
        return
    from opdb.core.files import write_atomically

    text = io.StringIO()
    with redirect_stdout(text):
        yield
    write_atomically(output, text.getvalue())
    print(f"written to {output}", file=sys.stderr)


@contextmanager
def text_aside(json: bool) -> Iterator[None]:
    """With ``json``, what is printed meanwhile for people goes to stderr: stdout holds one JSON document."""
    with redirect_stdout(sys.stderr) if json else nullcontext():
        yield


def cell(value: Any) -> str:
    """A value as text in a table: lists are joined, None is empty."""
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
    rows: Rows,
    columns: Sequence[str],
    format_: Format,
    title: str = "",
    output: Path | None = None,
    types: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    layout: Layout = Layout(),
) -> None:
    """Prints rows as a table (without empty columns), CSV, Markdown, HTML, or JSON, as they come.

    ``output`` is a file, which Parquet requires; ``types`` are the types of its columns, text by default.  ``notes`` follow
    a table, Markdown and HTML.  ``layout`` is for a table on a terminal; in a pipe or a file a table has all ``columns``,
    so that `grep` and `awk` find the same everywhere.
    """
    if format_ is Format.parquet:
        from opdb.cli.parquet import write_parquet

        if output is None:
            raise OpdbError("--format parquet writes a file; name it with --output")
        count = write_parquet(output, rows, columns, types or {})
        print(f"{output}: {counted(count, 'row')}", file=sys.stderr)
    elif format_ is Format.table and output is None:
        _table(rows, columns, layout)
        for note in ("", *notes) if notes else ():
            print(note)
    elif output is None:
        for line in _lines(rows, columns, format_, title, notes):
            print_whole(line)
    else:
        from opdb.core.files import written_atomically

        with written_atomically(output) as name, open(name, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _lines(rows, columns, format_, title, notes))


def _lines(
    rows: Rows, columns: Sequence[str], format_: Format, title: str, notes: Sequence[str]
) -> Iterator[str]:
    if format_ is Format.json:
        return _json(rows)
    if format_ is Format.csv:
        return _csv(rows, columns)
    if format_ is Format.md:
        return chain(_markdown(rows, columns), ("", *(f"- {n}" for n in notes)) if notes else ())
    if format_ is Format.html:
        return _html(rows, columns, title, notes)
    return chain(_plain(rows, columns), ("", *notes) if notes else ())


def _json(rows: Rows) -> Iterator[str]:
    """An array in the format of ``json.dumps(..., indent=2)``."""
    before = "["
    for row in rows:
        yield before if before == "[" else f"{before},"
        before = _json_object(row)
    yield "[]" if before == "[" else f"{before}\n]"


def _json_object(row: Mapping[str, Any]) -> str:
    """A row, indented by two.  A separator indents, because ``json`` does it in Python, which takes five times as long."""
    if not row:
        return "  {}"
    if any(isinstance(value, dict | list | tuple) for value in row.values()):
        text = json.dumps(row, indent=2, ensure_ascii=False, default=str)
        return "\n".join(f"  {line}" for line in text.splitlines())
    return f"  {{\n    {_FLAT.encode(row)[1:-1]}\n  }}"


_FLAT = json.JSONEncoder(ensure_ascii=False, default=str, separators=(",\n    ", ": "))


def _csv(rows: Rows, columns: Sequence[str]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="")
    for values in _chain(columns, rows):
        out.seek(0)
        out.truncate()
        writer.writerow(values)
        yield out.getvalue()


def _chain(columns: Sequence[str], rows: Rows) -> Iterator[list[str]]:
    yield list(columns)
    for row in rows:
        yield [cell(row[c]) for c in columns]


def _markdown(rows: Rows, columns: Sequence[str]) -> Iterator[str]:
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for r in rows:
        yield "| " + " | ".join(cell(r[c]).replace("|", "\\|").replace("\n", " ") for c in columns) + " |"


def _html(rows: Rows, columns: Sequence[str], title: str, notes: Sequence[str]) -> Iterator[str]:
    """A page without scripts: the table head stays visible, statuses are colored."""
    safe = html.escape(title)
    colors = "".join(f".{word} {{ background: var(--{kind}-back); }}\n" for word, kind in _COLORS.items())
    sheet = style(
        f"{colors}body {{ max-width: none; }} thead th {{ position: sticky; top: 0; }}\n",
        max(NARROW, COLUMN * len(columns)),
    )
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{safe}</title><link rel="icon" href="data:,"><style>\n{sheet}</style></head>'
    )
    heads = "".join(f'<th scope="col">{broken(c)}</th>' for c in columns)
    yield f'<body><main><h1>{safe}</h1>\n<table class="cards">\n<thead><tr>{heads}</tr></thead><tbody>'
    for r in rows:
        yield "<tr>" + "".join(_td(c, cell(r[c])) for c in columns) + "</tr>"
    yield "</tbody></table>"
    if notes:
        yield f"<ul>{''.join(f'<li>{html.escape(n)}</li>' for n in notes)}</ul>"
    yield "</main></body></html>"


def _td(column: str, text: str) -> str:
    """A table cell, colored by its status."""
    found = _color(text)
    kind = f' class="{found}"' if found else ""
    return f'<td{kind} data-l="{html.escape(column)}">{broken(text)}</td>'


def _color(text: str) -> str:
    """The color of a cell: that of its status, of the better one where several SDKs or chips differ."""
    for begins, color in ((YES, "yes"), (NO, "no"), ("crashed", "crashed"), ("hung", "hung")):
        if text == begins or text.startswith((f"{begins} (", f"{begins} on ")):
            return "except" if "; " in text and color == "yes" else color
    return "except" if EXCEPT in text else ""


def _plain(rows: Rows, columns: Sequence[str]) -> Iterator[str]:
    """Lines of plain text, built column by column: equal values in a hundred thousand rows are formatted once."""
    records = [*map(itemgetter(*columns), rows)] if len(columns) > 1 else [(r[columns[0]],) for r in rows]
    values = [[*map(itemgetter(i), records)] for i in range(len(columns))]
    padded = []
    for name, column in zip(columns, values, strict=True):
        words = _words(column)
        if any(words):
            width = max(len(name), *(min(len(w), 60) for w in set(words)))
            wide = {w: w.ljust(width) for w in {name, *words}} | {None: "-" * width}
            padded.append([wide[name], wide[None], *map(wide.__getitem__, words)])
    if not padded:
        padded = [[c, "-" * len(c), *(" " * len(c) for _ in values[0])] for c in columns]
    for line in zip(*padded, strict=True):
        yield "  ".join(line).rstrip()


def _words(column: Sequence[Any]) -> list[str]:
    """The texts of a column; equal values are formatted once."""
    try:
        known = {v: cell(v) for v in set(column)}
    except TypeError:  # a list
        return [cell(v) for v in column]
    return [known[v] for v in column]


def _table(rows: Rows, columns: Sequence[str], layout: Layout) -> None:
    if not is_terminal():
        lines = _plain(rows, columns)
        heads = [*islice(lines, 2)]
        first = next(lines, None)
        if first is None:
            print("no rows", file=sys.stderr)
            return
        sys.stdout.writelines(f"{line}\n" for line in chain(heads, (first,), lines))
        return
    rows = list(rows)
    if not rows:
        print("no rows", file=sys.stderr)
        return
    print_table(rows, columns, layout, cell)
