"""Turns an HTML page into a tree of headings, each with its lists and tables; independent of QNN."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from opdb.author.importers.markup import Element, parse_html, words

MARKS = "\u00b6\uf0c1#"  # the text of a link to a heading


@dataclass
class Item:
    """A list item: its own text and the items below it."""

    text: str
    items: list[Item]
    line: int


@dataclass
class Table:
    """``rows``: each cell with its text and, if it holds a list, the items."""

    header: list[str]
    rows: list[list[Cell]]
    line: int


@dataclass(frozen=True)
class Cell:
    text: str
    lines: tuple[str, ...]  # items of a list, else the text split at line breaks
    line: int


@dataclass
class Heading:
    level: int
    title: str
    line: int
    items: list[Item] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    parts: list[Heading] = field(default_factory=list)

    def part(self, title: str) -> Heading | None:
        return next((p for p in self.parts if p.title.lower() == title.lower()), None)


def outline(path: Path) -> Heading:
    """The page's headings under one of level 0.  Raises OpdbError for a file that is not a page."""
    root = Heading(0, path.name, 1)
    stack = [root]
    for element in parse_html(path).iter("h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table"):
        if element.tag[0] == "h":
            level = int(element.tag[1])
            while stack[-1].level >= level:
                stack.pop()
            found = Heading(level, words(element).rstrip(MARKS).strip(), element.sourceline or 1)
            stack[-1].parts.append(found)
            stack.append(found)
        elif _inside(element, ("ul", "ol", "table")):
            continue
        elif element.tag == "table":
            stack[-1].tables.append(_table(element))
        else:
            stack[-1].items += list(_items(element))
    return root


def _inside(element: Element, tags: tuple[str, ...]) -> bool:
    return next(element.iterancestors(*tags), None) is not None


def _items(element: Element) -> Iterator[Item]:
    for point in element.findall("li"):
        lists = [e for e in point.iter("ul", "ol") if next(e.iterancestors("li"), None) is point]
        below = [item for e in lists for item in _items(e)]
        yield Item(_text_without(point, lists), below, point.sourceline or 1)


def _text_without(element: Element, lists: list[Element]) -> str:
    """The text of an element outside of the lists in it."""
    skipped = {e for inner in lists for e in inner.iter()}
    out = []
    for e in element.iter():
        if e not in skipped:
            out.append(e.text or "")
        if e is not element and (e not in skipped or e in lists):
            out.append(e.tail or "")
    return " ".join(" ".join(out).split())


def _table(element: Element) -> Table:
    rows = [[_cell(c) for c in row.findall("*") if c.tag in ("td", "th")] for row in element.iter("tr")]
    header = [cell.text for cell in rows[0]] if rows else []
    return Table(header, rows[1:], element.sourceline or 1)


def _cell(element: Element) -> Cell:
    points = [words(e) for e in element.iter("li")]
    if not points:
        for br in element.iter("br"):
            br.tail = "\n" + (br.tail or "")
        text = "".join(element.itertext())
        points = [" ".join(line.split()) for line in text.split("\n")]
    found = tuple(p for p in points if p)
    return Cell(" ".join(found), found, element.sourceline or 1)
