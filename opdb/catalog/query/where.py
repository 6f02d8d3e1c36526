"""``--where``: a boolean expression over the columns of a question, as in SQL, but never given to SQL.

    op = 'LayerNorm' and (validates <> 'yes' or code in (3110, 4005)) and not log like '%rank%'

Comparisons = <> != < <= > >=, ``in (...)``, ``like`` (% and _, capitals do not matter), ``is null``, with
``and``, ``or``, ``not`` and parentheses.  Strings are in single quotes.  As in SQL, a comparison with an
absent value is neither true nor false.

The text is parsed, never passed on.  Tests that every database decides as Python does (a column compared with a
value or list of values of its type, or with null) also become an SQL condition with bound values, so that the
database can drop rows before Python tests the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.catalog.query import sql
from opdb.catalog.query.sql import Sql
from opdb.core.errors import OpdbError
from opdb.core.guess import did_you_mean

Row = Mapping[str, Any]
#: True, False, or None if an absent value leaves the result open.
Predicate = Callable[[Row], bool | None]
Value = Callable[[Row], Any]


@dataclass(frozen=True)
class Condition:
    """A test of rows; ``sql``, if any, holds for every row that passes.  ``exact``: ``sql`` equals the test, NULL for None."""

    test: Predicate
    sql: Sql | None = None
    exact: bool = False

    def keeps(self, row: Row) -> bool:
        return self.test(row) is True


@dataclass(frozen=True)
class _Operand:
    value: Value
    column: str | None = None
    type: str | None = None  # type of a column that SQL knows: text, integer, number, or boolean
    literal: Any = None


MAX_LENGTH = 2000
MAX_NESTING = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|'(?P<text>(?:[^']|'')*)'|\"(?P<quoted>[^\"]*)\""
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign><>|!=|<=|>=|[=<>(),]))"
)
_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_WORDS = ("and", "or", "not", "in", "like", "is", "null", "true", "false")


def parse_where(text: str, columns: Sequence[str]) -> Callable[[Row], bool]:
    """Parses a test of rows.  Raises OpdbError with the place of a syntax error."""
    return condition(text, dict.fromkeys(columns)).keeps


def condition(text: str, columns: Mapping[str, str | None]) -> Condition:
    """Parses a test of rows with these columns into Python and, if possible, SQL.  Raises OpdbError like ``parse_where``.

    ``columns``: name -> type, as in ``opdb.catalog.schema.views``; None for a column that SQL does not know.
    """
    if len(text) > MAX_LENGTH:
        raise OpdbError(f"--where: longer than {MAX_LENGTH} characters")
    parser = _Parser(text, columns)
    found = parser.disjunction(0)
    if parser.kind != "end":
        raise parser.error("'and', 'or' or the end")
    return found


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, str | None]) -> None:
        self.text, self.columns = text, columns
        self.end = 0
        self.advance()

    def advance(self) -> None:
        self.start = self.end
        if not self.text[self.end :].strip():
            self.start = len(self.text)
            self.kind, self.token = "end", ""
            return
        match = _TOKEN.match(self.text, self.end)
        if match is None or match.lastgroup is None:
            self.start += len(self.text[self.end :]) - len(self.text[self.end :].lstrip())
            raise OpdbError(
                f"--where: column {self.start + 1}: cannot read '{self.text[self.start : self.start + 20]}'"
            )
        self.kind, self.token, self.end = match.lastgroup, match[match.lastgroup], match.end()
        self.start = match.start(match.lastgroup)
        if self.kind == "word" and self.token.lower() in _WORDS:
            self.kind, self.token = "keyword", self.token.lower()

    def error(self, expected: str) -> OpdbError:
        found = f"'{self.token}'" if self.kind != "end" else "the end"
        return OpdbError(f"--where: column {self.start + 1}: expected {expected}, found {found}")

    def take(self, *tokens: str) -> bool:
        if self.kind in ("keyword", "sign") and self.token in tokens:
            self.advance()
            return True
        return False

    def need(self, token: str) -> None:
        if not self.take(token):
            raise self.error(f"'{token}'")

    def disjunction(self, depth: int) -> Condition:
        if depth > MAX_NESTING:
            raise OpdbError(f"--where: nested deeper than {MAX_NESTING} levels")
        parts = [self.conjunction(depth)]
        while self.take("or"):
            parts.append(self.conjunction(depth))
        return parts[0] if len(parts) == 1 else _either(parts)

    def conjunction(self, depth: int) -> Condition:
        parts = [self.negation(depth)]
        while self.take("and"):
            parts.append(self.negation(depth))
        return parts[0] if len(parts) == 1 else _both(parts)

    def negation(self, depth: int) -> Condition:
        denied = False
        while self.take("not"):
            denied = not denied
        if self.take("("):
            inner = self.disjunction(depth + 1)
            self.need(")")
        else:
            inner = self.comparison()
        return _denied(inner) if denied else inner

    def comparison(self) -> Condition:
        left = self.operand()
        if self.take("is"):
            denied = self.take("not")
            self.need("null")
            known = left.column is not None and left.type is not None
            said = sql.is_(left.column or "", "NOT NULL" if denied else "NULL") if known else None
            return Condition(lambda row: (left.value(row) is None) is not denied, said, known)
        denied = self.take("not")
        if self.take("in"):
            inner = _is_in(left, self.choices())
        elif self.take("like"):
            pattern = self.operand()
            inner = Condition(lambda row: _like(left.value(row), pattern.value(row)))
        elif not denied and self.kind == "sign" and self.token in _SIGNS:
            sign = self.token
            self.advance()
            return _compared(sign, left, self.operand())
        else:
            raise self.error("'in' or 'like'" if denied else "a comparison")
        return _denied(inner) if denied else inner

    def choices(self) -> list[_Operand]:
        self.need("(")
        out = [self.operand()]
        while self.take(","):
            out.append(self.operand())
        self.need(")")
        return out

    def operand(self) -> _Operand:
        kind, token = self.kind, self.token
        if kind in ("word", "quoted"):
            if token not in self.columns:
                hint = did_you_mean(token, self.columns, f"known: {', '.join(self.columns)}")
                raise OpdbError(f"--where: column {self.start + 1}: no column '{token}'{hint}")
            self.advance()
            return _Operand(lambda row: row[token], token, self.columns[token])
        if kind == "keyword" and token in ("true", "false", "null"):
            value: Any = {"true": True, "false": False, "null": None}[token]
        elif kind == "number":
            value = float(token) if re.search(r"[.eE]", token) else int(token)
        elif kind == "text":
            value = token.replace("''", "'")
        else:
            raise self.error("a column, a number or a 'text'")
        self.advance()
        return _Operand(lambda row: value, literal=value)


def _either(parts: Sequence[Condition]) -> Condition:
    known = [p.sql for p in parts if p.sql is not None]
    said = sql.either(known) if len(known) == len(parts) else None
    return Condition(lambda row: _any([p.test(row) for p in parts]), said, all(p.exact for p in parts))


def _both(parts: Sequence[Condition]) -> Condition:
    known = [p.sql for p in parts if p.sql is not None]
    said = sql.every(known) if known else None
    return Condition(
        lambda row: _not(_any([_not(p.test(row)) for p in parts])), said, all(p.exact for p in parts)
    )


def _denied(inner: Condition) -> Condition:
    said = sql.denied(inner.sql) if inner.exact and inner.sql is not None else None
    return Condition(lambda row: _not(inner.test(row)), said, said is not None)


def _compared(sign: str, left: _Operand, right: _Operand) -> Condition:
    said = None
    if left.column is not None and _same_type(left, right):
        ordered = left.type in ("integer", "number")  # databases sort text differently
        said = (
            sql.compared(left.column, sign, right.literal) if ordered or sign in ("=", "<>", "!=") else None
        )
    return Condition(lambda row: _compare(sign, left.value(row), right.value(row)), said, said is not None)


def _is_in(left: _Operand, choices: Sequence[_Operand]) -> Condition:
    said = None
    if left.column is not None and all(_same_type(left, c) for c in choices):
        said = sql.among(left.column, [c.literal for c in choices])
    return Condition(
        lambda row: _any([_compare("=", left.value(row), c.value(row)) for c in choices]),
        said,
        said is not None,
    )


def _same_type(left: _Operand, right: _Operand) -> bool:
    """True if every database compares this column and this value as Python does."""
    value = right.literal
    if left.type is None or right.column is not None or value is None:
        return False
    if left.type == "text":
        return isinstance(value, str) and "\0" not in value and value.isprintable()
    if left.type == "boolean":
        return isinstance(value, bool)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**53


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _compare(sign: str, a: Any, b: Any) -> bool | None:
    """Compares two values; None if one is absent, or if a number is compared with text that is no number."""
    if a is None or b is None:
        return None
    if isinstance(a, str) is not isinstance(b, str):
        try:
            a, b = float(a), float(b)
        except ValueError:
            return None
    return _SIGNS[sign](a, b)


def _like(value: Any, pattern: Any) -> bool | None:
    if value is None or pattern is None:
        return None
    parts = [{"%": ".*", "_": "."}.get(c, re.escape(c)) for c in str(pattern)]
    return re.fullmatch("".join(parts), str(value), re.IGNORECASE | re.DOTALL) is not None
