"""Parses YAML text into plain data with the place of every part, in one pass.

PyYAML reads the events, with libyaml if it is compiled in (30 times as fast as Python); ruamel.yaml interprets the
scalars of YAML 1.2.  A document is pure data: YAML 1.2, no anchors, aliases, tags, merges, or duplicate keys, bounded
in size and depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from yaml import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from opdb.core.errors import Problem, SpecError

MAX_BYTES = 256 * 1024
MAX_NESTING = 24
At = tuple[str | int, ...]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Document:
    """One YAML file: its data as plain Python, and the place of each path in it (line, column from 1)."""

    path: str  # as shown in messages: relative to the folder that was read
    text: str
    data: Any
    places: Mapping[At, tuple[int, int]] = field(repr=False)

    def problem(self, at: At, message: str, offset: int = 0) -> Problem:
        """A fault at a path of the data, or at the nearest enclosing place that has a position."""
        while at and at not in self.places:
            at = at[:-1]
        line, column = self.places.get(at, (1, 1))
        return Problem(self.path, line, column + offset, message)


def parse_document(text: str, path: str) -> Document:
    """Parses one YAML text.  Raises SpecError for anything but plain YAML 1.2 data."""
    if len(text.encode()) > MAX_BYTES:
        raise SpecError([Problem(path, 0, 0, f"a spec file has at most {MAX_BYTES // 1024} KiB")])
    reader = _Reader(path)
    try:
        data = reader.document(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SpecError([Problem(path, line, column, _message(error))]) from None
    except (YAMLError, ValueError, RecursionError) as error:
        raise SpecError([Problem(path, 1, 1, f"not YAML: {str(error).splitlines()[0]}")]) from None
    return Document(path, text, data, reader.places)


def _message(error: MarkedYAMLError) -> str:
    problem = (error.problem or "not YAML").split("\n")[0]
    cure = next((c for words, c in CURES.items() if words in str(error)), "")
    return f"not YAML: {problem}{cure}"


#: Words in a message of the YAML library -> the cure.
CURES = {
    "cannot start any token": "; indent with blanks, and quote a text that begins with @ or `",
    "mapping values are not allowed": "; a text with ': ' in it needs quotes",
    "flow": "; an expression with [ ] { } or ', ' inside {...} needs quotes",
}


def _place(event: Event) -> tuple[int, int]:
    """Line and column of the start, from 1."""
    mark = event.start_mark
    assert mark is not None  # a parser sets it
    return mark.line + 1, mark.column + 1


class _Reader:
    """Builds data from the events of the parser."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.yaml = YAML(typ="safe", pure=True)  # numbers as in YAML 1.2
        self.places: dict[At, tuple[int, int]] = {}
        self.events: Iterator[Event] = iter(())

    def document(self, text: str) -> Any:
        self.events = yaml.parse(text, Loader=LOADER)
        data: Any = None
        documents = 0
        for event in self.events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self.refusal(event, "a file holds one document: no second '---'")
                data = self.value(next(self.events), (), 0)
        return data

    def refusal(self, event: Event, message: str) -> SpecError:
        return SpecError([Problem(self.path, *_place(event), message)])

    def value(self, event: Event, at: At, depth: int) -> Any:
        self.check(event, depth)
        quoted = isinstance(event, ScalarEvent) and event.style in ("'", '"')  # text starts after the quote
        line, column = _place(event)
        self.places.setdefault(at, (line, column + quoted))
        if isinstance(event, ScalarEvent):
            return self.scalar(event)
        if isinstance(event, SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(inner := next(self.events), SequenceEndEvent):
                items.append(self.value(inner, (*at, len(items)), depth + 1))
            return items
        out: dict[str, Any] = {}
        while not isinstance(key := next(self.events), MappingEndEvent):
            name = self.key(key, out)
            self.places[(*at, name, "__key__")] = _place(key)
            out[name] = self.value(next(self.events), (*at, name), depth + 1)
        return out

    def key(self, event: Event, taken: Mapping[str, Any]) -> str:
        if not isinstance(event, ScalarEvent):
            raise self.refusal(
                event, "a key is one word; an expression with [ ] { } or ', ' inside {...} needs quotes"
            )
        self.check(event, 0)
        name = str(event.value)
        if name in taken:
            raise self.refusal(event, f'the key is given twice: "{name}"')
        if name == "<<":
            raise self.refusal(event, "merge keys (<<) are not allowed; 'extends' shares what a family has")
        return name

    def check(self, event: Event, depth: int) -> None:
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None):
            raise self.refusal(event, "anchors and aliases (& and *) are not allowed; write [S...], not [*S]")
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) != "None":
            raise self.refusal(event, f"tags are not allowed: {tag}")
        if depth > MAX_NESTING:
            raise self.refusal(event, f"nested deeper than {MAX_NESTING} levels")
        assert isinstance(event, (ScalarEvent, SequenceStartEvent, MappingStartEvent))

    def scalar(self, event: ScalarEvent) -> Any:
        """The number, boolean, null, or text of a scalar under YAML 1.2."""
        tag = self.yaml.resolver.resolve(ScalarNode, event.value, event.implicit)
        if str(tag).removeprefix("tag:yaml.org,2002:") not in ("bool", "float", "int", "null"):
            return str(event.value)
        node = ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        value = self.yaml.constructor.construct_object(node)
        return value if value is None or isinstance(value, (bool, int, float)) else str(event.value)
