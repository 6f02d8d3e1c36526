"""``--where``: a boolean expression over the columns of a question, as in SQL, but never given to SQL.

    op = 'LayerNorm' and (validates <> 'yes' or code in (3110, 4005)) and not log like '%rank%'

Comparisons = <> != < <= > >=, ``in (...)``, ``like`` (% and _, capitals do not matter), ``is null``, with
``and``, ``or``, ``not`` and parentheses.  Strings are in single quotes.  As in SQL, what compares with an
absent value is neither true nor false.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opdb.errors import OpdbError

Row = Mapping[str, Any]
#: True, False, or None where an absent value leaves it open.
Predicate = Callable[[Row], bool | None]
Value = Callable[[Row], Any]

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
    """A test of rows.  Raises OpdbError with the place for anything but such an expression."""
    if len(text) > MAX_LENGTH:
        raise OpdbError(f"--where: longer than {MAX_LENGTH} characters")
    parser = _Parser(text, columns)
    predicate = parser.disjunction(0)
    if parser.kind != "end":
        raise parser.error("'and', 'or' or the end")
    return lambda row: predicate(row) is True


class _Parser:
    def __init__(self, text: str, columns: Sequence[str]) -> None:
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

    def disjunction(self, depth: int) -> Predicate:
        if depth > MAX_NESTING:
            raise OpdbError(f"--where: nested deeper than {MAX_NESTING} levels")
        parts = [self.conjunction(depth)]
        while self.take("or"):
            parts.append(self.conjunction(depth))
        return parts[0] if len(parts) == 1 else lambda row: _any([p(row) for p in parts])

    def conjunction(self, depth: int) -> Predicate:
        parts = [self.negation(depth)]
        while self.take("and"):
            parts.append(self.negation(depth))
        return parts[0] if len(parts) == 1 else lambda row: _not(_any([_not(p(row)) for p in parts]))

    def negation(self, depth: int) -> Predicate:
        denied = False
        while self.take("not"):
            denied = not denied
        if self.take("("):
            inner = self.disjunction(depth + 1)
            self.need(")")
        else:
            inner = self.comparison()
        return (lambda row: _not(inner(row))) if denied else inner

    def comparison(self) -> Predicate:
        left = self.operand()
        if self.take("is"):
            denied = self.take("not")
            self.need("null")
            return lambda row: (left(row) is None) is not denied
        denied = self.take("not")
        if self.take("in"):
            inner = _is_in(left, self.choices())
        elif self.take("like"):
            inner = _is_like(left, self.operand())
        elif not denied and self.kind == "sign" and self.token in _SIGNS:
            sign = self.token
            self.advance()
            right = self.operand()
            return lambda row: _compare(sign, left(row), right(row))
        else:
            raise self.error("'in' or 'like'" if denied else "a comparison")
        return (lambda row: _not(inner(row))) if denied else inner

    def choices(self) -> list[Value]:
        self.need("(")
        out = [self.operand()]
        while self.take(","):
            out.append(self.operand())
        self.need(")")
        return out

    def operand(self) -> Value:
        kind, token = self.kind, self.token
        if kind in ("word", "quoted"):
            if token not in self.columns:
                close = difflib.get_close_matches(token, self.columns, 1)
                hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(self.columns)}"
                raise OpdbError(f"--where: column {self.start + 1}: no column '{token}'; {hint}")
            self.advance()
            return lambda row: row[token]
        if kind == "keyword" and token in ("true", "false", "null"):
            value: Any = {"true": True, "false": False, "null": None}[token]
        elif kind == "number":
            value = float(token) if re.search(r"[.eE]", token) else int(token)
        elif kind == "text":
            value = token.replace("''", "'")
        else:
            raise self.error("a column, a number or a 'text'")
        self.advance()
        return lambda row: value


def _is_in(left: Value, choices: Sequence[Value]) -> Predicate:
    return lambda row: _any([_compare("=", left(row), c(row)) for c in choices])


def _is_like(left: Value, pattern: Value) -> Predicate:
    return lambda row: _like(left(row), pattern(row))


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _any(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _compare(sign: str, a: Any, b: Any) -> bool | None:
    """None where a value is absent, or where text is compared with a number that it is not."""
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
