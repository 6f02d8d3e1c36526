"""A table on a terminal: the columns that answer first, as many as fit without breaking a word, or a block for each row.

Columns are laid out one by one, and equal values are wrapped once: a question may have a hundred thousand rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from opdb.cli.screen import cells, filled, meaning, painted, print_paged, print_whole, width

GAP = "  "
#: A column of longer texts gets at least so much, or it would be squeezed: the first number; for texts that would take more
#: than LINES lines up to the second.  If somebody chose the columns, less.
ROOMY, TIGHT = (28, 40), (12, 12)
LINES = 4

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Layout:
    """How a terminal shows a table.

    ``first``: the columns that answer, by importance, which decides who fits; all if there are none.  ``chosen``: show every
    column, as somebody asked.
    ``others``: the words behind "3 more columns", which say how to see those that are left out; a command without
    such an option shows every column.
    """

    first: Sequence[str] = ()
    chosen: bool = False
    others: str = ""
    pager: bool = False


@dataclass(frozen=True)
class Column:
    """A column: its texts by row, the widths that it needs at least and at most, and the one that it gets."""

    name: str
    texts: Sequence[str]
    statuses: bool
    least: int
    most: int
    width: int = 0


def print_table(rows: Rows, columns: Sequence[str], layout: Layout, text_of: Callable[[Any], str]) -> None:
    """Prints rows for the terminal's width.  ``text_of`` turns a value into a text."""
    lines = table_lines(rows, columns, layout, text_of, width())
    if layout.pager:
        print_paged(lines, wrap=False)
        return
    for line in lines:
        print_whole(line)


def table_lines(
    rows: Rows, columns: Sequence[str], layout: Layout, text_of: Callable[[Any], str], most: int
) -> Iterator[str]:
    """The lines of ``print_table`` on a terminal of ``most`` columns."""
    every = [c for c in (_column(rows, name, text_of) for name in columns) if any(c.texts)]
    if not every:
        every = [_column(rows, name, text_of) for name in columns]
    whole = layout.chosen or not layout.others
    if whole:
        fitting = _spread(every, most, TIGHT)
        shown = every
    else:
        known = {c.name: c for c in every}
        wanted = [known[name] for name in layout.first or columns if name in known] or every
        fit = _as_many_as_fit(wanted, most)
        shown = [c for c in every if c in fit]
        fitting = _spread(shown, most, ROOMY)
    yield from _blocks(shown, most) if fitting is None else _table(fitting)
    if left := [c.name for c in every if c not in shown]:
        yield from _left_out(left, layout.others, most)


def _column(rows: Rows, name: str, text_of: Callable[[Any], str]) -> Column:
    known: dict[Any, str] = {}
    texts = []
    for row in rows:
        value = row[name]
        try:
            # 1 and True are equal, and have other texts
            text = known.get((type(value), value))
            if text is None:
                text = known[type(value), value] = text_of(value)
        except TypeError:  # a list
            text = text_of(value)
        texts.append(text)
    distinct = {name, *texts}
    least = max(cells(word) for text in distinct for word in text.split() or ("",))
    lines = max(cells(line) for text in distinct for line in text.splitlines() or ("",))
    statuses = any(isinstance(row[name], str) for row in rows[:1000])
    return Column(name, texts, statuses, least, lines)


def _roomy(column: Column, room: tuple[int, int]) -> int:
    return max(column.least, min(column.most, room[0]), min(column.most // LINES, room[1]))


def _as_many_as_fit(columns: Sequence[Column], most: int) -> list[Column]:
    """The columns, by importance, that fit beside those before them; the first in any case."""
    shown = [columns[0]]
    left = most - _roomy(columns[0], ROOMY)
    for column in columns[1:]:
        needed = len(GAP) + _roomy(column, ROOMY)
        if needed <= left:
            shown.append(column)
            left -= needed
    return shown


def _spread(columns: Sequence[Column], most: int, room: tuple[int, int]) -> list[Column] | None:
    """The columns with their widths: what is left goes to those that need least of it; None if they do not fit."""
    widths = {c.name: _roomy(c, room) for c in columns}
    left = most - sum(widths.values()) - len(GAP) * (len(columns) - 1)
    if left < 0:
        return None
    hungry = sorted((c for c in columns if c.most > widths[c.name]), key=lambda c: c.most - widths[c.name])
    for place, column in enumerate(hungry):
        more = min(column.most - widths[column.name], left // (len(hungry) - place))
        widths[column.name] += more
        left -= more
    return [replace(c, width=widths[c.name]) for c in columns]


def _table(columns: Sequence[Column]) -> Iterator[str]:
    yield from _lines([_padded(filled(c.name, c.width), c, "head") for c in columns], columns)
    wraps: list[dict[str, list[str]]] = [{} for _ in columns]
    for texts in zip(*(c.texts for c in columns), strict=True):
        broken = []
        for column, text, known in zip(columns, texts, wraps, strict=True):
            if text not in known:
                known[text] = _cell(text, column)
            broken.append(known[text])
        yield from _lines(broken, columns)


def _lines(row: Iterable[Sequence[str]], columns: Sequence[Column]) -> Iterator[str]:
    """The lines of a row, whose cells have different numbers of lines."""
    for parts in zip_longest(*row):
        yield GAP.join(p or " " * c.width for p, c in zip(parts, columns, strict=True)).rstrip()


def _cell(text: str, column: Column) -> list[str]:
    """The lines of a cell, padded to the column's width, and in the color of a status."""
    lines = [part for line in text.splitlines() or [""] for part in filled(line, column.width)]
    return _padded(lines, column, meaning(text) if column.statuses else "")


def _padded(lines: Iterable[str], column: Column, name: str) -> list[str]:
    """Lines in the color of their meaning, as wide as the column."""
    return [painted(line, name) + " " * (column.width - cells(line)) for line in lines]


def _blocks(columns: Sequence[Column], most: int) -> Iterator[str]:
    """A block for each row: a line for each value."""
    side = max(cells(c.name) for c in columns) + len(GAP)
    for number, texts in enumerate(zip(*(c.texts for c in columns), strict=True)):
        if number:
            yield ""
        for column, text in zip(columns, texts, strict=True):
            if not text:
                continue
            name = meaning(text) if column.statuses else ""
            head = painted(f"{column.name}:".ljust(side), "head")
            room = most - side
            if max(map(cells, text.split()), default=0) > room:
                yield painted(f"{column.name}:", "head")
                head, room = "  ", most - 2
            for part in (part for line in text.splitlines() for part in filled(line, room)):
                yield f"{head}{painted(part, name)}"
                head = " " * cells(head)


def _left_out(names: Sequence[str], others: str, most: int) -> Iterator[str]:
    count = f"{len(names)} more column{'s' * (len(names) != 1)}"
    for line in filled(f"{count}, {others}: {', '.join(names)}", most):
        yield painted(line, "unknown")
