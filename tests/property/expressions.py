"""Random texts of the rule language over one fixed scope, of every type and node kind.

A ``Writer`` draws from a ``Source``: a seeded ``random.Random`` for large reproducible batches, or Hypothesis, which
shrinks failures.  Texts have more parentheses and blanks than necessary, so that printing has work to do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

from opdb.spec.lang.functions import TENSOR_TYPES
from opdb.spec.lang.nodes import (
    BOOL,
    DTYPE,
    ENCODING,
    FLOAT,
    INT,
    INT64,
    INTS,
    ROWS,
    TENSOR,
    TENSOR_TYPE,
    TENSORS,
    Name,
    Scope,
)

T = TypeVar("T")
DIMS = (0, 2**31 - 1)
ENUM = "enum:mode"
ENUMS = {"ADD": 0, "MULTIPLY": 1, "POWER": 7}

SCOPE = Scope(
    {
        "n": Name(INT, INT64),
        "m": Name(INT, (-9, 9)),
        "d": Name(INT, DIMS),
        "k": Name(INT, (0, 2**32 - 1), optional=True, param=True),
        "j": Name(INT, (0, 255), optional=True, sure=True, param=True),
        "t": Name(INT, (-100, 2**40), let=True),
        "f": Name(FLOAT),
        "g": Name(FLOAT, optional=True, param=True),
        "h": Name(FLOAT, let=True),
        "p": Name(BOOL),
        "q": Name(BOOL, optional=True, param=True),
        "c": Name(BOOL, let=True),
        "mode": Name(ENUM, optional=True, param=True),
        "S": Name(INTS, DIMS),
        "L": Name(INTS, INT64),
        "axes": Name(INTS, (0, 2**32 - 1), optional=True, param=True),
        "bounds": Name(INTS, INT64, let=True),
        "R": Name(ROWS, (0, 2**32 - 1)),
        "x": Name(TENSOR),
        "w": Name(TENSOR, optional=True),
        "xs": Name(TENSORS),
    },
    {name: ("mode", number) for name, number in ENUMS.items()},
)
TYPES = (BOOL, INT, FLOAT, INTS, DTYPE, ENCODING, TENSOR_TYPE, ENUM)


class Source(Protocol):
    def integer(self, low: int, high: int) -> int: ...
    def choice(self, items: Sequence[T]) -> T: ...


class Seeded:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def choice(self, items: Sequence[T]) -> T:
        return self.random.choice(items)


class Drawn:
    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def choice(self, items: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(list(items)))
        return chosen


@st.composite
def texts(draw: Callable[..., Any], types: Sequence[str] = TYPES, depth: int = 4) -> tuple[str, str]:
    """(type, text)."""
    source = Drawn(draw)
    type_ = source.choice(types)
    return type_, Writer(source).write(type_, depth)


EDGES = (0, 1, 2, 3, 5, 63, 64, 65, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1)
FLOATS = ("0.0", "0.5", "1.0", "2.5", "1e-05", "1e300", "1e-300", "3.0000000000000004")
DTYPES = ("f32", "f16", "uq8", "sq8", "i32", "u8", "bool8")
ENCODINGS = ("NONE", "SCALE_OFFSET", "AXIS_SCALE_OFFSET")


def _method(type_: str) -> str:
    """The suffix of the methods for a type, e.g. enum."""
    return type_.partition(":")[0].replace(" ", "_")


class Writer:
    """Writes one expression.  ``write`` may be called again: loop variables are closed each time."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.loops: list[tuple[str, str]] = []  # (name, type)
        self.used = 0

    def write(self, type_: str, depth: int) -> str:
        forms = self._forms(type_) if depth > 0 else self._leaves(type_)
        text = self.source.choice(forms)(depth - 1)
        return f"( {text})" if self.source.integer(0, 7) == 0 else text

    def _leaves(self, type_: str) -> list[Callable[[int], str]]:
        loops = [lambda _, v=v: v for v, t in self.loops if t == type_]
        return [*getattr(self, "_leaf_" + _method(type_))(), *loops, *loops]

    def _forms(self, type_: str) -> list[Callable[[int], str]]:
        inner = getattr(self, "_form_" + _method(type_))()
        return [*self._leaves(type_)[:3], *inner, lambda d: self._if(type_, d)]

    def pick(self, *items: str) -> Callable[[int], str]:
        return lambda _: self.source.choice(items)

    def atom(self, type_: str, depth: int) -> str:
        """An operand that may stand before ``.`` or ``[``."""
        text = self.write(type_, depth)
        return text if text.isidentifier() else f"({text})"

    def _if(self, type_: str, d: int) -> str:
        then, test, other = self.write(type_, d), self.write(BOOL, d), self.write(type_, d)
        return f"({then}) if ({test}) else {other}"

    # -- int

    def _number(self, _: int) -> str:
        value = self.source.choice(EDGES) if self.source.integer(0, 2) == 0 else self.source.integer(0, 9)
        return f"-{value}" if self.source.integer(0, 3) == 0 else str(value)

    def _leaf_int(self) -> list[Callable[[int], str]]:
        return [
            self._number,
            self.pick("n", "m", "d", "k", "j", "t"),
            self.pick("x.rank", "w.rank", "x.axis"),
        ]

    def _form_int(self) -> list[Callable[[int], str]]:
        arith: Callable[[int], str] = lambda d: self._binary(INT, ("+", "-", "*", "//", "%"), d)  # noqa: E731
        return [
            arith,
            arith,
            lambda d: f"-({self.write(INT, d)})",
            lambda d: f"{self.atom(INTS, d)}[{self.write(INT, d)}]",
            lambda d: f"{self.atom(TENSOR, d)}.{self.source.choice(('rank', 'axis'))}",
            lambda d: f"len({self.write(self.source.choice((INTS, TENSORS)), d)})",
            lambda d: f"{self.source.choice(('prod', 'sum'))}({self.write(INTS, d)})",
            lambda d: f"bit({self.write(INT, d)}, {self.write(INT, d)})",
            lambda d: f"{self.source.choice(('min', 'max'))}({self.write(INT, d)}, {self.write(INT, d)})",
            lambda d: self._comprehension(self.source.choice(("sum", "min", "max")), INT, d),
        ]

    def _binary(self, type_: str, ops: Sequence[str], d: int) -> str:
        left, op, right = self.write(type_, d), self.source.choice(ops), self.write(type_, d)
        if self.source.integer(0, 1):
            left = f"({left})"
        if self.source.integer(0, 1) or " if " in right:
            right = f"({right})"
        return f"{left if ' if ' not in left else f'({left})'} {op} {right}"

    # -- float

    def _leaf_float(self) -> list[Callable[[int], str]]:
        return [self.pick(*FLOATS), self.pick("f", "g", "h"), lambda _: "-" + self.source.choice(FLOATS)]

    def _form_float(self) -> list[Callable[[int], str]]:
        return [
            lambda d: self._binary(FLOAT, ("+", "-", "*", "/"), d),
            lambda d: f"-({self.write(FLOAT, d)})",
            lambda d: f"{self.source.choice(('min', 'max'))}({self.write(FLOAT, d)}, {self.write(FLOAT, d)})",
            lambda d: f"to_float({self.write(INT, d)})",
        ]

    # -- bool

    def _leaf_bool(self) -> list[Callable[[int], str]]:
        return [
            self.pick(
                "true",
                "false",
                "p",
                "q",
                "c",
                "x.static",
                "x.symmetric",
                "w.static",
                "same_quant(x, x)",
                "same_quant(x, w)",
            ),
            self.pick("present(w)", "present(k)", "present(j)", "present(axes)", "present(mode)"),
        ]

    def _form_bool(self) -> list[Callable[[int], str]]:
        compare: Callable[[int], str] = lambda d: self._compare(self.source.choice((INT, INT, FLOAT)), d)  # noqa: E731
        return [
            compare,
            compare,
            lambda d: self._equal(d),
            lambda d: f"not {self.atom(BOOL, d)}",
            lambda d: self._junction(d),
            lambda d: self._junction(d),
            lambda d: self._member(d),
            lambda d: f"({self.write(INT, d)}) {self.source.choice(('in', 'not in'))} {self.atom(INTS, d)}",
            lambda d: f"{self.source.choice(('unique', 'increasing'))}({self.write(INTS, d)})",
            lambda d: f"broadcastable({self.write(INTS, d)}, {self.write(INTS, d)})",
            lambda d: f"contains({self.write(INTS, d)}, {self.write(INT, d)})",
            lambda d: self._comprehension(self.source.choice(("all", "any")), BOOL, d),
        ]

    def _compare(self, type_: str, d: int) -> str:
        text = f"({self.write(type_, d)})"
        for _ in range(self.source.integer(1, 3)):
            text += f" {self.source.choice(('<', '<=', '>', '>=', '==', '!='))} ({self.write(type_, d)})"
        return text

    def _equal(self, d: int) -> str:
        type_ = self.source.choice((INTS, DTYPE, ENCODING, TENSOR_TYPE, ENUM, BOOL))
        op = self.source.choice(("==", "!="))
        return f"({self.write(type_, d)}) {op} ({self.write(type_, d)})"

    def _junction(self, d: int) -> str:
        word = self.source.choice((" and ", " or "))
        return word.join(f"({self.write(BOOL, d)})" for _ in range(self.source.integer(2, 3)))

    def _member(self, d: int) -> str:
        type_ = self.source.choice((INT, DTYPE, ENCODING, TENSOR_TYPE, ENUM))
        choices = ", ".join(self.write(type_, d - 1) for _ in range(self.source.integer(1, 3)))
        return f"({self.write(type_, d)}) {self.source.choice(('in', 'not in'))} ({choices},)"

    # -- lists

    def _leaf_ints(self) -> list[Callable[[int], str]]:
        return [
            self.pick("S", "L", "axes", "bounds"),
            self.pick("x.shape", "w.shape", "x.values", "w.values", "R[0]", "R[-1]", "R[1]"),
            self.pick("[]", "[1]", "[2, 3]", "[-1, 0, 1]"),
        ]

    def _form_ints(self) -> list[Callable[[int], str]]:
        w = self.write
        return [
            lambda d: "[" + ", ".join(w(INT, d) for _ in range(self.source.integer(0, 3))) + "]",
            self._slice,
            lambda d: f"{self.atom(TENSOR, d)}.{self.source.choice(('shape', 'values'))}",
            lambda d: f"R[{w(INT, d)}]",
            lambda d: f"{self.source.choice(('gather', 'cat', 'broadcast'))}({w(INTS, d)}, {w(INTS, d)})",
            lambda d: f"replace({w(INTS, d)}, {w(INT, d)}, {w(INT, d)})",
            lambda d: (
                f"range({w(INT, d)})" if self.source.integer(0, 1) else f"range({w(INT, d)}, {w(INT, d)})"
            ),
            lambda d: f"reduced({w(INTS, d)}, {w(INTS, d)}, {w(BOOL, d)})",
            lambda d: f"{self.source.choice(('expand', 'of_rank', 'axes_of'))}({w(INTS, d)}, {w(INT, d)})",
            lambda d: self._comprehension("list", INT, d),
        ]

    def _slice(self, d: int) -> str:
        low = self.write(INT, d) if self.source.integer(0, 1) else ""
        high = self.write(INT, d) if self.source.integer(0, 1) else ""
        return f"{self.atom(INTS, d)}[{low}:{high}]"

    def _comprehension(self, function: str, type_: str, d: int) -> str:
        before, heads = len(self.loops), ""
        for _ in range(1 if function == "list" else self.source.integer(1, 2)):
            kind = self.source.choice((INTS, INTS, TENSORS))
            source = self.write(kind, min(d, 1))
            self.used += 1
            var = f"v{self.used}"
            self.loops.append((var, INT if kind == INTS else TENSOR))
            heads += f" for {var} in ({source})"
            if self.source.integer(0, 2) == 0:
                heads += f" if ({self.write(BOOL, min(d, 2))})"
        body = self.write(type_, d)
        del self.loops[before:]
        return f"[({body}){heads}]" if function == "list" else f"{function}(({body}){heads})"

    # -- tensors and names of things

    def _leaf_tensor(self) -> list[Callable[[int], str]]:
        return [self.pick("x"), self.pick("w"), self.pick("xs[0]", "xs[-1]", "xs[2]")]

    def _form_tensor(self) -> list[Callable[[int], str]]:
        return [lambda d: f"xs[{self.write(INT, d)}]"]

    def _leaf_tensors(self) -> list[Callable[[int], str]]:
        return [self.pick("xs")]

    def _form_tensors(self) -> list[Callable[[int], str]]:
        return [self.pick("xs")]

    def _leaf_dtype(self) -> list[Callable[[int], str]]:
        return [self.pick(*DTYPES), self.pick("x.dtype", "w.dtype")]

    def _form_dtype(self) -> list[Callable[[int], str]]:
        return [lambda d: f"{self.atom(TENSOR, d)}.dtype"]

    def _leaf_encoding(self) -> list[Callable[[int], str]]:
        return [self.pick(*ENCODINGS), self.pick("x.encoding", "w.encoding")]

    def _form_encoding(self) -> list[Callable[[int], str]]:
        return [lambda d: f"{self.atom(TENSOR, d)}.encoding"]

    def _leaf_tensor_type(self) -> list[Callable[[int], str]]:
        return [self.pick(*TENSOR_TYPES), self.pick("x.type", "w.type")]

    def _form_tensor_type(self) -> list[Callable[[int], str]]:
        return [lambda d: f"{self.atom(TENSOR, d)}.type"]

    def _leaf_enum(self) -> list[Callable[[int], str]]:
        return [self.pick(*ENUMS), self.pick("mode")]

    def _form_enum(self) -> list[Callable[[int], str]]:
        return [self.pick("mode")]


def batch(count: int, seed: int, types: Sequence[str], depth: int = 3) -> list[tuple[str, str]]:
    """``count`` different (type, text), the types in turn, none longer than the language allows."""
    out: dict[str, str] = {}
    number = 0
    while len(out) < count:
        type_ = types[len(out) % len(types)]
        text = Writer(Seeded(seed * 1_000_003 + number)).write(type_, depth)
        number += 1
        if len(text) <= 400:
            out.setdefault(text, type_)
    return [(type_, text) for text, type_ in out.items()]
