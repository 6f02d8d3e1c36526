"""Conditions on the columns of a view, as SQL text with a ? for each value; the text never contains values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sql:
    text: str
    values: tuple[Any, ...] = ()


def compared(column: str, sign: str, value: Any) -> Sql:
    return Sql(f'"{column}" {sign} ?', (value,))


def among(column: str, values: Iterable[Any]) -> Sql:
    """The condition that a column has one of these values."""
    return Sql(f'"{column}" IN ?', (list(values),))


def is_(column: str, word: str) -> Sql:
    """The condition that a column is ``word``: NULL, NOT NULL, or TRUE."""
    return Sql(f'"{column}" IS {word}')


def begins(column: str, text: str) -> Sql:
    return Sql(f'substr("{column}", 1, ?) = ?', (len(text), text))


def every(parts: Sequence[Sql]) -> Sql:
    return _joined("AND", parts)


def either(parts: Sequence[Sql]) -> Sql:
    return _joined("OR", parts)


def denied(part: Sql) -> Sql:
    return Sql(f"NOT ({part.text})", part.values)


def _joined(word: str, parts: Sequence[Sql]) -> Sql:
    return Sql(f" {word} ".join(f"({p.text})" for p in parts), tuple(v for p in parts for v in p.values))
