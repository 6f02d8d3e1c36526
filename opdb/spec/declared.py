"""Decides which type rows an op has on a backend, chip, and SDK: the only definition of *declared*.

A row is declared if the SDK has it, the chip meets its needs, and no rule definitely forbids at least one combination of its
data types, given the chip, the SDK, the data types, and the parameters the caller knows; all else is open.
`opdb sync` computes this for every row and chip class (the table ``declared``); the generated tables and
`opdb executorch table` read that table, and narrow the combinations by the values a mapping fixes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ENCODINGS
from opdb.core.sdk import declared, version
from opdb.spec.definitions import CompiledOp, CompiledRule, TypeRow
from opdb.spec.lang.certain import Rule, forbidden, parsed
from opdb.spec.lang.nodes import BOOL
from opdb.spec.lang.printer import to_text

#: A number beyond every SDK, in the numbering of the views: 2.47.1 is 2047001.
END = 10**9


@dataclass(frozen=True)
class _Read:
    """A rule in evaluable form, with the words it contains."""

    rule: CompiledRule
    parts: Rule
    words: frozenset[str]

    @classmethod
    def of(cls, rule: CompiledRule) -> _Read:
        when = None if rule.when is None else to_text(rule.when)
        require = to_text(rule.require)
        words = frozenset(re.findall(r"\w+", f"{when} {require}"))
        return cls(rule, (None if when is None else parsed(when), parsed(require)), words)

    def holds(self, known: Mapping[str, Any]) -> bool:
        """True if the rule holds for every op config with these known values."""
        when, require = self.parts
        return (when is not None and when(known) is False) or require(known) is True


@dataclass(frozen=True)
class Left:
    """The combinations of data types that remain allowed, and the backend's rules that are still open."""

    combinations: tuple[tuple[Mapping[str, str], TypeRow], ...]
    rules: tuple[CompiledRule, ...] = ()


@dataclass(frozen=True)
class Declared:
    """One op on one backend that documents it."""

    op: CompiledOp
    backend: str
    _found: dict[Any, list[tuple[int, int]]] = field(default_factory=dict, repr=False)

    def left(
        self, known: Mapping[str, Any], sdk: str, rows: Iterable[TypeRow], params: Mapping[str, Any]
    ) -> Left:
        """The allowed combinations of ``rows``, which must be declared there, and the open rules.

        ``known``: the chip's values that rules read, and the SDK's number; ``params``: fixed parameter values (enums by name)
        and ranks, e.g. x.rank.
        """
        asked = _Asked(self, known, sdk, params)
        found: dict[tuple[str, ...], tuple[Mapping[str, str], TypeRow]] = {}
        for row in rows:
            for dtypes in asked.combinations(row):
                found.setdefault(tuple(dtypes.values()), (dtypes, row))
        types = [
            {**asked.known, **{f"{slot}.dtype": d for slot, d in dtypes.items()}}
            for dtypes, _ in found.values()
        ]
        rules = [r.rule for r in asked.required if r.rule.backend and not all(r.holds(t) for t in types)]
        return Left(tuple(found.values()), tuple(rules))

    def ranges(self, row: TypeRow, chip: Mapping[str, Any]) -> list[tuple[int, int]]:
        """The ranges (first, last) of SDK numbers (2.47.1 is 2047001) that have a row on a chip.

        ``chip``: the chip's values that rules may read.
        """
        if row.needs is not None and not chip[row.needs.has]:
            return []
        read = {name: value for name, value in chip.items() if name in self._words}
        key = (row.id, tuple(read.items()))
        if key not in self._found:
            self._found[key] = self._ranges(row, read)
        return self._found[key]

    def _ranges(self, row: TypeRow, chip: Mapping[str, Any]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        points = sorted({0, END, *self._points, *_ends(row.since, row.until)})
        for first, after in pairwise(points):
            sdk = f"{first // 10**6}.{first // 1000 % 1000}.{first % 1000}"
            if not (self._has(sdk) and declared(row.since, row.until, sdk)):
                continue
            if any(_Asked(self, {**chip, "sdk": first // 1000}, sdk, {}).combinations(row)):
                if found and found[-1][1] == first - 1:
                    first = found.pop()[0]
                found.append((first, after - 1))
        return found

    def _has(self, sdk: str) -> bool:
        backend = self.op.definition.backends[self.backend]
        return declared(backend.since, backend.until, sdk)

    def required(self, sdk: str) -> list[_Read]:
        """The rules that a config must keep; excludes warnings and rules the backend does not check."""
        return [r for r in self._rules if self._required(r.rule, sdk)]

    def _required(self, rule: CompiledRule, sdk: str) -> bool:
        if rule.strength == "expect":
            return False
        entry = self.op.unchecked(rule.id).get(self.backend) if rule.backend is None else None
        return entry is None or not declared(entry.since, entry.until, sdk)

    @cached_property
    def _rules(self) -> tuple[_Read, ...]:
        return tuple(map(_Read.of, (*self.op.rules, *self.op.backend_rules[self.backend])))

    @cached_property
    def lets(self) -> list[tuple[str, str]]:
        """The named conditions of the op."""
        return [(name, to_text(node)) for name, node in self.op.lets if node.type == BOOL]

    @cached_property
    def _words(self) -> frozenset[str]:
        """The names that rules and named conditions read."""
        lets = re.findall(r"\w+", " ".join(text for _, text in self.lets))
        return frozenset(lets).union(*(r.words for r in self._rules))

    @cached_property
    def _points(self) -> set[int]:
        """The SDK numbers at which the declaration can change."""
        backend = self.op.definition.backends[self.backend]
        found = set(_ends(backend.since, backend.until))
        for rule in self._rules:
            for entry in self.op.unchecked(rule.rule.id).values():
                found |= set(_ends(entry.since, entry.until))
        if "sdk" in self._words:  # it is compared with numbers like 2047
            numbers = {int(word) for word in self._words | set(re.findall(r"\w+", " ".join(t for _, t in self.lets)))
                       if word.isdigit() and 1000 <= int(word) < END // 1000}  # fmt: skip
            found |= {n * 1000 for n in numbers} | {(n + 1) * 1000 for n in numbers}
        return found


class _Asked:
    """The required rules that can decide something, and the known values, for one chip and SDK."""

    def __init__(self, of: Declared, known: Mapping[str, Any], sdk: str, params: Mapping[str, Any]) -> None:
        op, self._of = of.op, of
        enums = {n: n for p in op.params for n in p.definition.enum}
        self.known = self._with_lets({**known, **enums, **params})
        self.required = of.required(sdk)
        names = {*self.known, "dtype", "present", "rank"} | {p.name for p in op.params if p.definition.enum}
        names -= set(enums)
        self._telling = [r.parts for r in self.required if names & r.words]
        self._encoded = [r.parts for r in self.required if "encoding" in r.words]
        self._present = {f"present({s.name})": True for s in op.slots if not s.optional}
        open_ = [p for p in op.params if p.definition.enum and p.name not in params]
        self._ways = [
            [self._with_lets({**self.known, p.name: value}) for value in p.definition.enum] for p in open_
        ] or [[self.known]]

    def combinations(self, row: TypeRow) -> Iterator[Mapping[str, str]]:
        """The combinations of a row that no rule definitely forbids: each open enum has some value that allows them."""
        slots = list(row.cells)
        for cells in product(*row.cells.values()):
            dtypes = dict(zip(slots, cells, strict=True))
            if all(any(self._may_be(known, dtypes) for known in way) for way in self._ways):
                yield dtypes

    def _may_be(self, known: Mapping[str, Any], dtypes: Mapping[str, str]) -> bool:
        here = {**known, **{f"{slot}.dtype": d for slot, d in dtypes.items()}, **self._present}
        if forbidden(self._telling, here):
            return False
        return not self._encoded or all(
            any(not forbidden(self._encoded, {**here, f"{slot}.encoding": e}) for e in ENCODINGS)
            for slot in _quantized(self._of.op, dtypes)
        )

    def _with_lets(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """``known`` plus the op's named conditions that it decides."""
        out = dict(known)
        for name, text in self._of.lets:
            if (told := parsed(text)(out)) is not None:
                out[name] = told
        return out


def has(ranges: Iterable[tuple[int, int]], sdk: str) -> bool:
    """True if one of the ranges contains an SDK."""
    at = number(sdk)
    return any(first <= at <= last for first, last in ranges)


def _quantized(op: CompiledOp, dtypes: Mapping[str, str]) -> Sequence[str]:
    return [s.name for s in op.slots if BY_SHORT[dtypes[s.name]].quantized and not s.optional]


def _ends(since: str | None, until: str | None) -> Iterator[int]:
    """The first SDK number of a range, and the first one after it; 2.47 includes 2.47.1."""
    if since is not None:
        yield number(since)
    if until is not None:
        yield number(until) + 10 ** (3 * (2 - until.count(".")))


def number(sdk: str) -> int:
    """Converts an SDK version to a number: 2.47.1 -> 2047001; parts that are not numbers count as 0."""
    parts = [*version(sdk)[:3], 0, 0, 0]
    return parts[0] * 10**6 + parts[1] * 1000 + parts[2]
