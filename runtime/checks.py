"""The runtime of generated validators: the rule language's functions in Python, and the report.

Arithmetic is on 64-bit integers; an overflow is undecidable, as in the C code
(runtime/include/opdb/checked.h).  Undecidable is raised inside a rule and recorded by ``Report.check``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Generic, Literal, TypeVar

from opdb.core.names import counted

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_DIM, MAX_RANK = 2**31 - 1, 16  # limits of a tensor, as in opdb.core.op_config
MASK_BITS = 32  # width of a parameter that is a mask
MAX_LIST = 64  # maximum length of a list that a rule computes (OPDB_MAX_LIST)
#: The effect of breaking a rule.  ``require``: the op is rejected.  ``expect``: a warning, because the backend only
#: prefers the rule or does not check it.
RuleStrength = Literal["require", "expect"]
#: The strength of a violation.  ``erratum``: no rule is broken, but the library has a known fault here.
Strength = Literal[RuleStrength, "erratum"]
T = TypeVar("T")
Ints = Sequence[int]


class Undecidable(Exception):
    """A rule reads a value that is absent or out of range, or its arithmetic overflows."""


def int64(value: int) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise Undecidable("the result leaves 64 bits")
    return value


def add(a: int, b: int) -> int:
    return int64(a + b)


def sub(a: int, b: int) -> int:
    return int64(a - b)


def mul(a: int, b: int) -> int:
    return int64(a * b)


def neg(a: int) -> int:
    return int64(-a)


def floordiv(a: int, b: int) -> int:
    if b == 0:
        raise Undecidable("division by zero")
    return int64(a // b)


def floormod(a: int, b: int) -> int:
    if b == 0:
        raise Undecidable("division by zero")
    return a % b


def divide(a: float, b: float) -> float:
    if b == 0:
        raise Undecidable("division by zero")
    return a / b


def given(value: T | None) -> T:
    """``value``; raises Undecidable if it is absent."""
    if value is None:
        raise Undecidable("the value is absent")
    return value


def at(values: Sequence[T], i: int) -> T:
    """``values[i]``, negative from the end; undecidable if out of range or if the tensor is omitted."""
    if not -len(values) <= i < len(values):
        raise Undecidable("the index is out of range")
    return given(values[i])


def _short(values: list[int]) -> list[int]:
    if len(values) > MAX_LIST:
        raise Undecidable("the list is too long")
    return values


def prod(values: Ints) -> int:
    out = 1
    for v in values:
        out = mul(out, v)
    return out


def sum_of(values: Iterable[int]) -> int:
    out = 0
    for v in values:
        out = add(out, v)
    return out


def smallest(values: Iterable[int]) -> int:
    return min(_some(values))


def largest(values: Iterable[int]) -> int:
    return max(_some(values))


def _some(values: Iterable[int]) -> list[int]:
    out = list(values)
    if not out:
        raise Undecidable("the list is empty")
    return out


def listed(values: Iterable[int]) -> list[int]:
    """The list of a list comprehension; undecidable if longer than MAX_LIST."""
    return _short(list(values))


def same(a: Ints, b: Ints) -> bool:
    return len(a) == len(b) and all(x == y for x, y in zip(a, b, strict=True))


def unique(values: Ints) -> bool:
    return len(set(values)) == len(values)


def increasing(values: Ints) -> bool:
    return all(a < b for a, b in pairwise(values))


def contains(values: Ints, value: int) -> bool:
    return value in values


def same_quant(a: Any, b: Any) -> bool:
    """True if two tensors have the same encoding: kind, axis, bits, scales (as float32), and offsets."""
    return bool(a.quant == b.quant)


def broadcastable(a: Ints, b: Ints) -> bool:
    """True if the shapes broadcast, as in numpy."""
    return all(x == y or x == 1 or y == 1 for x, y in zip(reversed(a), reversed(b), strict=False))


def broadcast(a: Ints, b: Ints) -> list[int]:
    if not broadcastable(a, b):
        raise Undecidable("the shapes do not broadcast")
    n = max(len(a), len(b))
    left, right = [1] * (n - len(a)) + list(a), [1] * (n - len(b)) + list(b)
    return _short([y if x == 1 else x for x, y in zip(left, right, strict=True)])


def gather(values: Ints, positions: Ints) -> list[int]:
    return _short([at(values, i) for i in positions])


def replace(values: Ints, i: int, value: int) -> list[int]:
    at(values, i)
    out = _short(list(values))
    out[i] = value
    return out


def indices(low: int, high: int | None = None) -> list[int]:
    """``range(low)`` or ``range(low, high)`` as a list."""
    start, stop = (0, low) if high is None else (low, high)
    if stop - start > MAX_LIST:
        raise Undecidable("the list is too long")
    return list(range(start, stop))


def cat(a: Ints, b: Ints) -> list[int]:
    return _short([*a, *b])


def reduced(shape: Ints, axes: Ints, keep_dims: bool) -> list[int]:
    """``shape`` after a reduction over ``axes``; [1] if nothing is left (QNN: rank max(1, N - M))."""
    if not unique(axes) or not all(0 <= a < len(shape) for a in axes):
        raise Undecidable("an axis is out of range or given twice")
    _short(list(shape))
    kept = [1 if i in axes else d for i, d in enumerate(shape) if keep_dims or i not in axes]
    return kept or [1]


def expand(values: Ints, n: int) -> list[int]:
    """``values`` if it has ``n`` values, or its single value repeated ``n`` times."""
    if len(values) not in (1, n) or not 0 <= n <= MAX_LIST:
        raise Undecidable(f"{counted(len(values), 'value')} cannot stand for {n}")
    return list(values) if len(values) == n else [values[0]] * n


def of_rank(shape: Ints, n: int) -> list[int]:
    """``shape`` with ones in front, so that it has ``n`` dimensions."""
    if not len(shape) <= n <= MAX_LIST:
        raise Undecidable(f"{counted(len(shape), 'dimension')} cannot be {n}")
    return [1] * (n - len(shape)) + list(shape)


def axes_of(axes: Ints, rank: int) -> list[int]:
    """``axes`` in order, each once, negative ones counted from the last of ``rank`` dimensions; all of these where there is none."""
    every = indices(rank)
    named = {a % rank for a in axes} if every else ()
    return [i for i in every if i in named or not axes]


def bit(mask: int, i: int) -> int:
    """Bit ``i`` of a mask: 0 or 1."""
    if not 0 <= i < MASK_BITS:
        raise Undecidable(f"a mask has no bit {i}")
    return mask >> i & 1


def inferred(shape: Ints) -> list[int]:
    """``shape`` as an output shape: at most 16 dimensions of 0 .. 2**31 - 1, else undecidable."""
    if len(shape) > MAX_RANK or not all(0 <= d <= MAX_DIM for d in shape):
        raise Undecidable(f"{list(shape)} is not a shape")
    return list(shape)


class Let(Generic[T]):
    """A named expression, evaluated once; if that fails, it is undecidable for every rule that reads it."""

    __slots__ = ("_failure", "_value")

    def __init__(self, compute: Callable[[], T]) -> None:
        self._failure: str | None = None
        try:
            self._value = compute()
        except Undecidable as reason:
            self._failure = str(reason)

    def __call__(self) -> T:
        if self._failure is not None:
            raise Undecidable(self._failure)
        return self._value

    def shown(self) -> T | None:
        return None if self._failure is not None else self._value


def default(compute: Callable[[], T]) -> T | None:
    """The default value of an omitted parameter; None if it is undecidable."""
    try:
        return compute()
    except Undecidable:
        return None


@dataclass(frozen=True)
class Violation:
    """One broken rule.  ``rule``: e.g. LayerNorm.C3; ``got``: the values it reads."""

    rule: str
    sentence: str  # e.g. every a in axes must be in [0, the rank of x)
    got: str = ""  # e.g. a = 3 at axes[1], x.rank = 3
    undecidable: bool = False
    strength: Strength = "require"
    path: str = ""  # e.g. params.axes
    why: str = ""  # the effect or the reason in words; "" if the spec gives none
    erratum: str = ""  # the fault in a vendor library that this config triggers, e.g. HTP-0042; never rejects
    effect: str = ""  # the erratum's effect, e.g. wrong-result

    @property
    def warning(self) -> bool:
        """True if the op is accepted anyway."""
        return self.strength != "require"

    @property
    def refuses(self) -> bool:
        """True if no graph can contain the op: the library rejects it, does not finalize it, or crashes."""
        return self.strength == "require" or self.effect in ("not-finalized", "crash")

    @property
    def message(self) -> str:
        """The full message on one line: the effect or the reason, the rule, and the values."""
        if self.erratum:
            return self._of_erratum(self.got)
        why = f"{self.why} Rule: " if self.why else ""
        got = f"; got {self.got}" if self.got else ""
        return f"{why}{self.sentence}{got}" + " (cannot be evaluated)" * self.undecidable

    @property
    def brief(self) -> str:
        """A short message for people: the reason and the values, and the rule if it is short or there is no reason."""
        values = ", ".join(map(_in_words, READINGS.split(self.got))) if self.got else ""
        if len(values) > SHOWN:
            values = values[: SHOWN - 3] + "..."
        if self.erratum:
            return self._of_erratum(values)
        parts = [self.why.rstrip(".")] * bool(self.why)
        if not self.why or len(self.sentence) <= SHOWN:
            parts.append(self.sentence)
        parts.insert(bool(self.why), values)
        return "; ".join(p for p in parts if p) + " (cannot be evaluated)" * self.undecidable

    def _of_erratum(self, values: str) -> str:
        """The effect, the values that trigger it, and the details of the record."""
        effect = f"{self.sentence} ({values})" if values else self.sentence
        return effect + (f". {self.why}" if self.why else "") + " (cannot be evaluated)" * self.undecidable


#: The separator of values in ``got``; the maximum length of the values, and of a rule shown after its reason.
READINGS, SHOWN = re.compile(r", (?=[A-Za-z_][\w.]* = )"), 140
#: Attributes -> the words between tensor and value.
WORDS = {"rank": "has rank", "shape": "has shape", "dtype": "is"}


def _in_words(reading: str) -> str:
    """A value in words, e.g. x.rank = 6 -> x has rank 6."""
    name, found, value = reading.partition(" = ")
    tensor, _, attribute = name.rpartition(".")
    if not found:
        return reading
    return f"{tensor} {WORDS[attribute]} {value}" if tensor and attribute in WORDS else f"{name} is {value}"


Got = Sequence[tuple[str, Any]]


def shown(value: Any) -> str:
    """A value as shown in messages; the C code prints the same."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.9g}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(shown(v) for v in value) + "]"
    return str(value)


def element(value: int, name: str, i: int) -> str:
    """The value of a loop variable with its place in the list, e.g. 3 at axes[1]."""
    return f"{value} at {name}[{i}]"


@dataclass
class Report:
    """Collects the violations of one op config."""

    op: str
    violations: list[Violation] = field(default_factory=list)

    def check(
        self,
        rule: str,
        sentence: str,
        holds: Callable[[], bool],
        got: Callable[[], Got] = tuple,
        witness: Callable[[], Iterable[Got]] | None = None,
        *,
        strength: Strength = "require",
        path: str = "",
        why: str = "",
    ) -> bool:
        """Judges one rule.  ``witness`` yields the values of each failing iteration of an "all" rule."""
        undecidable = False
        try:
            if holds():
                return True
        except Undecidable:
            undecidable = True
        values: list[tuple[str, Any]] = []
        if witness is not None and not undecidable:
            values += next(iter(witness()))
        values += got()
        text = ", ".join(f"{n} = {shown(v)}" for n, v in values if v is not None)
        self.add(rule, sentence, text, undecidable=undecidable, strength=strength, path=path, why=why)
        return False

    def rank(self, rule: str, sentence: str, tensor: Any, low: int, high: int = 2**32, *, path: str,
             strength: Strength = "require", why: str = "") -> None:  # fmt: skip
        """Judges a rule that the tensor named by ``path`` has a rank within bounds; it holds if the tensor is omitted."""
        if tensor is not None and not low <= tensor.rank <= high:
            got = f"{path.partition('.')[2]}.rank = {tensor.rank}"
            self.add(rule, sentence, got, strength=strength, path=path, why=why)

    def same_dtype(self, rule: str, sentence: str, *tensors: tuple[str, Any], path: str,
                   strength: Strength = "require", why: str = "") -> None:  # fmt: skip
        """Judges a rule that two tensors have the same dtype; it holds if one is omitted."""
        (a, left), (b, right) = tensors
        if left is not None and right is not None and left.dtype != right.dtype:
            got = f"{a}.dtype = {left.dtype}, {b}.dtype = {right.dtype}"
            self.add(rule, sentence, got, strength=strength, path=path, why=why)

    def add(self, rule: str, sentence: str, got: str = "", *, undecidable: bool = False,
            strength: Strength = "require", path: str = "", why: str = "") -> None:  # fmt: skip
        self.violations.append(
            Violation(f"{self.op}.{rule}", sentence, got, undecidable, strength, path, why)
        )

    def hit(
        self,
        erratum: str,
        title: str,
        effect: str,
        avoided: Callable[[], bool],
        got: Callable[[], Got] = tuple,
        witness: Callable[[], Iterable[Got]] | None = None,
        *,
        path: str = "",
        why: str = "",
    ) -> None:
        """Records a fault in a vendor library that this config triggers, unless ``avoided`` holds or is undecidable."""
        try:
            if avoided():
                return
        except Undecidable:
            return
        values = [*(next(iter(witness())) if witness is not None else ()), *got()]
        text = ", ".join(f"{n} = {shown(v)}" for n, v in values if v is not None)
        self.violations.append(Violation(erratum, title, text, False, "erratum", path, why, erratum, effect))

    def result(self) -> tuple[Violation, ...]:
        """All violations; undecidable ones only if no rule is definitely broken."""
        decided = [v for v in self.violations if not v.undecidable]
        return tuple(decided if self.broken else self.violations)

    def settle(self) -> None:
        """Raises Undecidable if there is any violation."""
        if self.violations:
            raise Undecidable("; ".join(v.message for v in self.violations))

    @property
    def broken(self) -> bool:
        """True if a rule other than a warning is definitely broken."""
        return any(not (v.undecidable or v.warning) for v in self.violations)
