"""Applies errata to a lowered node: workarounds transform its ops, and hits without a workaround refuse them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import count

from opdb.catalog.targets.target import Target
from opdb.judge.errata.policy import AVOID, WARN, policy, warning
from opdb.judge.errata.records import RECORDS
from opdb.lower.workarounds import BETWEEN_CONVERSIONS, OF_OPS, OF_PATTERNS, OF_PROGRAMS, Facts, Surroundings
from opdb.runtime.errata import Erratum
from opdb.runtime.forms import Lowered, LoweredOp, Reason, Rejected

#: The errata that the validators of a target report for an op, by id.
Hits = Callable[[LoweredOp], frozenset[str]]


@dataclass
class _Obeying:
    target: Target
    surroundings: Surroundings
    hits: Hits
    avoided: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def facts(self) -> Facts:
        return Facts(self.surroundings, next(self.numbers))

    def pattern(self, erratum: str, decision: str, ops: tuple[LoweredOp, ...]) -> tuple[LoweredOp, ...]:
        """Applies the workaround of an erratum that depends on the surroundings to ``ops``."""
        find = OF_PATTERNS[RECORDS[erratum].workaround]
        made: list[LoweredOp] = []
        for op in ops:
            new = find(op, self.facts())
            if new is not None:
                (self.avoided if decision == AVOID else self.warned).append(erratum)
            made += [op] if new is None or decision == WARN else new
        return tuple(made)

    def op(self, op: LoweredOp, used: frozenset[str] = frozenset()) -> Iterator[LoweredOp]:
        """Yields ``op`` after the workarounds for the errata that it hits, each used once; the new ops are checked too."""
        avoided = [e for e in sorted(self.hits(op)) if policy(e, self.target) == AVOID]
        names = {RECORDS[e].workaround for e in avoided} - used
        for name in [n for n in OF_OPS if n in names]:
            new = OF_OPS[name](op, self.facts())
            if new is not None:
                self.avoided += [e for e in avoided if RECORDS[e].workaround == name]
                for each in new:
                    yield from self.op(each, used | {name})
                return
        yield op


def obeyed(lowered: Lowered, target: Target, surroundings: Surroundings, hits: Hits) -> Lowered:
    """Applies the workarounds that the policy of ``target`` asks for to ``lowered``; ``avoided`` has their errata.

    ``warned`` has the errata that depend on the surroundings.  The caller (``opdb.lower.select``) judges the errata of single
    ops: it warns of a hit, or refuses one that no workaround changed.
    """
    obeying = _Obeying(target, surroundings, hits)
    ops = lowered.ops
    for erratum, decision in _of_patterns(target):
        ops = obeying.pattern(erratum, decision, ops)
    ops = tuple(new for op in ops for new in obeying.op(op))
    avoided, warned = (tuple(dict.fromkeys(ids)) for ids in (obeying.avoided, obeying.warned))
    return replace(lowered, ops=ops, avoided=avoided, warned=warned)


def between_conversions(built: Lowered, lowered: Lowered, target: Target) -> Iterator[tuple[str, str]]:
    """Yields the errata of a node that is computed in floating point between conversions, with the policy's decision on each.

    ``lowered``: the result of ``obeyed`` on ``built``.
    """
    for erratum, shows in BETWEEN_CONVERSIONS.items():
        decision = policy(erratum, target)
        if decision in (AVOID, WARN) and shows(built.ops, lowered.ops):
            yield erratum, decision


def obeyed_in_program(lowered: Mapping[str, Lowered | Rejected], target: Target) -> dict[str, Lowered]:
    """The nodes of one graph that change, or get a warning, because of errata that depend on all of its ops.

    ``lowered``: the nodes in the order of execution.
    """
    changed: dict[str, Lowered] = {}
    for erratum, decision in _named(target, OF_PROGRAMS):
        now = {**lowered, **changed}
        ops = {name: each.ops for name, each in now.items() if isinstance(each, Lowered)}
        for name, new in OF_PROGRAMS[RECORDS[erratum].workaround](ops).items():
            node = now[name]
            assert isinstance(node, Lowered)
            changed[name] = _decided(node, tuple(new), erratum, decision)
    return changed


def _decided(node: Lowered, new: tuple[LoweredOp, ...], erratum: str, decision: str) -> Lowered:
    if decision == AVOID:
        return replace(node, ops=new, avoided=(*node.avoided, erratum))
    note = Reason(node.form, erratum, warning(RECORDS[erratum]), warning=True)
    return replace(node, notes=(*node.notes, note), warned=(*node.warned, erratum))


@lru_cache(64)
def _of_patterns(target: Target) -> list[tuple[str, str]]:
    return list(_named(target, OF_PATTERNS))


@cache
def _of_backend(backend: str) -> list[Erratum]:
    return [e for e in RECORDS.values() if e.backend == backend]


def _named(target: Target, workarounds: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yields the errata of ``target`` that have one of these workarounds and are not ignored, in the order of the workarounds.

    Each comes with the policy's decision, AVOID or WARN.
    """
    for name in workarounds:
        for erratum in _of_backend(str(target.backend)):
            if erratum.workaround == name and (decision := policy(erratum.id, target)) in (AVOID, WARN):
                yield erratum.id, decision
