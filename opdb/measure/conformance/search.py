"""Searches for configs that break one rule alone: damages good configs in one step, then in two.

A rule that is never broken alone is implied by the rules that are broken with it in every config tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.damage import Damages, damaged
from opdb.spec.definitions import SIGNATURE, CompiledOp
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.nodes import Node, walk

#: (config, backend, soc) -> the full ids of the rules that it breaks, warnings included.
Judge = Callable[[OpConfig, str, str], tuple[str, ...]]
#: The number of cases per rule, from damages to different things.
PER_RULE = 3
#: Configs that break more rules than this are useless for a single rule.
MOST = 8
#: The number of configs that get every damage, and that get damages to the tensors and parameters read by rules without a case.
WHOLE, BASES = 4, 48
#: The number of damaged configs that are damaged again, per rule: those that break few others with it (in so many rounds),
#: and those that are still accepted.
NEAR, ROUNDS, GOOD = 12, 3, 32
#: For an op with more tensors and parameters than this, one config gets every damage, and less is tried.
LARGE = 24
#: The budget for all rules of a backend together, and per round for each remaining rule.  A config that was judged
#: before costs SEEN, one that has to be judged costs FRESH, one of a large op SLOW.
MANY, TRIES, SEEN, FRESH, SLOW = 64_000, 16_000, 1, 4, 40
#: The kind of damage that changes each tensor attribute that a rule reads.
KINDS = {"encoding": "attribute", "static": "attribute", "sparse": "attribute", "type": "attribute",
         "values": "attribute", "symmetric": "attribute", "axis": "attribute", "dtype": "dtype", "shape": "shape",
         "rank": "shape"}  # fmt: skip


#: Damages to several things at once.
COMMON = frozenset({"size", "rank", "types", "encodings", "presence"})


@dataclass(frozen=True)
class Broken:
    """A config and the rules that it breaks."""

    config: OpConfig
    backend: str
    soc: str
    rules: tuple[str, ...]
    note: str  # e.g. LayerNorm-sample0-f32; axes = [3]
    kind: str = ""  # of the last damage


@dataclass(frozen=True)
class Base:
    """An accepted config, its origin, and the traits that distinguish it from others."""

    name: str
    config: OpConfig
    soc: str
    traits: tuple[str, ...]


@dataclass
class Budget:
    """The remaining budget of attempts."""

    left: int


class Search:
    """The search for one op; the order of the calls and of their arguments decides the result."""

    def __init__(
        self,
        compiled: CompiledOp,
        damages: Damages,
        judge: Judge,
        unchecked: Mapping[str, frozenset[str]] = MappingProxyType({}),
    ) -> None:
        """``unchecked``: backend -> the full ids of the op's rules that it does not check."""
        self.compiled, self.damages, self.judge, self.unchecked = compiled, damages, judge, unchecked
        rules = (*compiled.rules, *(r for own in compiled.backend_rules.values() for r in own))
        self.warnings = frozenset(f"{compiled.name}.{r.id}" for r in rules if r.strength != "require")
        large = len(compiled.slots) + len(compiled.params) > LARGE
        self._cost, self._whole = (SLOW, 1) if large else (FRESH, WHOLE)
        self._judged: dict[tuple[str, str], dict[OpConfig, tuple[str, ...]]] = {}  # by backend and SoC
        self._alone: dict[str, list[Broken]] = {}
        self._together: dict[str, dict[frozenset[str], list[Broken]]] = {}
        self.goals: list[str] = []

    def op_rules(self, bases: Sequence[Base]) -> None:
        """Searches for the rules of the op definition, with configs judged without a backend."""
        self._run(self._op_rules(), "", bases)

    def backend_rules(self, backend: str, bases: Sequence[Base]) -> None:
        """Searches for the rules and type rows of one backend."""
        full = [f"{self.compiled.name}.{i}" for i in self.compiled.rule_ids()]
        own = {f"{self.compiled.name}.{r.id}" for r in self.compiled.backend_rules[backend]}
        own.add(f"{self.compiled.name}.TYPES_{backend}")
        self._run([r for r in full if r in own], backend, bases)

    def _op_rules(self) -> list[str]:
        c = self.compiled
        of_backends = {r.id for rules in c.backend_rules.values() for r in rules}
        return [f"{c.name}.{i}" for i in c.rule_ids() if i not in of_backends and not i.startswith("TYPES_")]

    def _run(self, goals: list[str], backend: str, bases: Sequence[Base]) -> None:
        self.goals += goals
        reads = {g: self._reads(g, backend) for g in goals}
        good: dict[tuple[str, ...], Base] = {}  # damaged once and accepted
        budget = Budget(MANY)
        for i, base in enumerate(_diverse_first(bases)[:BASES]):
            left = [g for g in goals if g not in self._alone]
            whole = i < self._whole
            if not whole and not (left and budget.left > 0):
                break
            names = None if whole else frozenset[str]().union(*(reads[g] for g in left))
            for broken in self._damaged(base, backend, names, None if whole else budget):
                if not broken.rules:
                    again = Base(broken.note, broken.config, broken.soc, (broken.kind, _what(broken)))
                    good.setdefault((broken.note.rpartition("; ")[2], *base.traits[1:]), again)
        for goal in goals:
            if goal not in self._alone:
                self._again(goal, backend, reads, list(good.values()))

    def _again(self, goal: str, backend: str, reads: Mapping[str, frozenset[str]], good: list[Base]) -> None:
        """Damages configs that break ``goal`` with others, to mend the others; and accepted ones, to break it."""
        tried: set[str] = set()
        for i in range(ROUNDS + 1):
            budget = Budget(TRIES)
            if i == 1:
                tries = [(b, reads[goal]) for b in self._relevant(goal, backend, reads[goal], good)]
            else:
                near = [(b, rules) for b, rules in self._near(goal, backend) if b.name not in tried][:NEAR]
                tries = [(b, reads[goal].union(*(reads.get(r, ()) for r in rules))) for b, rules in near]
            for base, names in tries:
                tried.add(base.name)
                for _ in self._damaged(base, backend, names, budget):
                    pass
                if goal in self._alone:
                    return
                if budget.left <= 0:
                    break

    def _rule_nodes(self, goal: str, backend: str) -> list[Node]:
        c = self.compiled
        own = (*c.ranks, *c.rules, *c.backend_rules.get(backend, ()))
        return [n for r in own if f"{c.name}.{r.id}" == goal for n in (r.require, r.when) if n is not None]

    def _reads(self, goal: str, backend: str) -> frozenset[str]:
        """The tensors and parameters that a rule reads, and "SoC"; for a rule without an expression, all and unknown ones."""
        c = self.compiled
        nodes = self._rule_nodes(goal, backend)
        if not nodes:
            return frozenset({*(s.name for s in c.slots), *(p.name for p in c.params), "unknown"})
        inside = dict(c.lets) | {b.symbol: b.value for b in c.binds}
        names: set[str] = set()
        queue = [n for node in nodes for n in free_names(node)]
        while queue:
            name = queue.pop()
            if name not in names:
                names.add(name)
                queue += free_names(inside[name]) if name in inside else ()
        return frozenset(names | ({"SoC"} if names & {"arch", "soc_model"} else set()) | COMMON)

    def _relevant(self, goal: str, backend: str, reads: frozenset[str], good: list[Base]) -> list[Base]:
        """Accepted damages, starting with those that change what the rule reads."""
        attributes = {
            str(a.value) for n in self._rule_nodes(goal, backend) for a in walk(n) if a.kind == "attr"
        }
        kinds = {KINDS.get(a, "") for a in attributes}
        own = reads - COMMON | {"presence"}
        return sorted(good, key=lambda b: (b.traits[1] not in own, b.traits[0] not in kinds))[:GOOD]

    def _damaged(
        self, base: Base, backend: str, names: frozenset[str] | None, budget: Budget | None
    ) -> Iterator[Broken]:
        """Yields damaged configs with the rules that they break; each is judged and kept once, whatever was damaged."""
        for damage in self.damages.of(base.config, base.soc, names):
            judged = self._judged.setdefault((backend, damage.soc), {})
            rules = judged.get(damage.config)
            fresh = rules is None
            if rules is None:
                rules = judged[damage.config] = self.judge(damage.config, backend, damage.soc)
            broken = Broken(
                damage.config, backend, damage.soc, rules, f"{base.name}; {damage.what}", damage.kind
            )
            if fresh:
                self._keep(broken)
            yield broken
            if budget is not None:
                budget.left -= self._cost if fresh else SEEN
                if budget.left <= 0:
                    return

    def _keep(self, broken: Broken) -> None:
        if len(broken.rules) == 1:
            if broken.rules[0] in self.unchecked.get(broken.backend, ()):
                return  # accepted: it does not break the rule
            alone = self._alone.setdefault(broken.rules[0], [])
            if len(alone) < PER_RULE and all(_what(broken) != _what(b) for b in alone):
                alone.append(broken)
        elif len(broken.rules) <= MOST:
            together = frozenset(broken.rules)
            for rule in broken.rules:
                examples = self._together.setdefault(rule, {}).setdefault(together, [])
                if len(examples) < 4:
                    examples.append(broken)

    def _near(self, goal: str, backend: str) -> list[tuple[Base, frozenset[str]]]:
        """Configs that break ``goal`` with few others, from different sets of rules, with those sets."""
        sets = sorted(self._together.get(goal, {}).items(), key=lambda e: (len(e[0]), sorted(e[0])))
        rounds = [(rules, [b for b in examples if b.backend == backend]) for rules, examples in sets[:16]]
        turns = [(b, rules) for i in range(4) for rules, r in rounds for b in r[i : i + 1]]
        return [(Base(b.note, b.config, b.soc, ()), rules) for b, rules in turns]

    def repaired(
        self,
        goal: str,
        good: Callable[[OpConfig, str, str], bool],
        others: Sequence[Broken] = (),
        backend: str | None = None,
    ) -> Broken | None:
        """An accepted config that is ``good``, one step from one that breaks ``goal``, or another rule, or from ``others``.

        ``backend``: the backend that ``goal`` belongs to; configs for others are skipped.
        """
        first = self._alone.get(goal) or [b for some in self._together.get(goal, {}).values() for b in some]
        whole = [r for r in self._alone if r != goal and not r.endswith(SIGNATURE)]
        read = self._reads(goal, "")
        whole.sort(key=lambda r: -len(read & self._reads(r, "")))
        rest = [b for rule in whole for b in self._alone[rule]]
        budget = Budget(2 * TRIES)
        mine = [b for b in others if goal in b.rules]
        for broken in (*mine, *first, *others, *rest):
            if budget.left <= 0:
                break
            if backend not in (None, broken.backend):
                continue
            base = Base(broken.note, broken.config, broken.soc, ())
            names = self._reads(goal, broken.backend) | {"SoC"}
            for again in self._damaged(base, broken.backend, names, budget):
                kept = self.warnings.issuperset(again.rules) and goal not in again.rules
                if kept and good(again.config, again.backend, again.soc):
                    return again
        return None

    def warned(self, goal: str, backend: str, bases: Sequence[Base]) -> Broken | None:
        """A config that breaks ``goal``, which the backend does not check: alone, or else with other unchecked rules."""
        names, second = self._reads(goal, backend), None
        for base in _diverse_first(bases)[:BASES]:
            for damage in self.damages.of(base.config, base.soc, names):
                rules = self.judge(damage.config, backend, damage.soc)
                found = Broken(
                    damage.config, backend, damage.soc, rules, f"{base.name}; {damage.what}", damage.kind
                )
                if rules == (goal,):
                    return found
                if second is None and goal in rules and self.unchecked[backend].issuperset(rules):
                    second = found
        return second

    # -- results

    def found(self) -> Iterator[tuple[str, Broken]]:
        """Yields (rule, config): the cases that break a rule alone, or else the one that breaks it with the fewest others."""
        for goal in self.goals:
            if goal in self._alone:
                yield from ((goal, b) for b in self._alone[goal])
            elif goal in self._together:
                yield goal, self._smallest(goal)[1][0]

    def _smallest(self, goal: str) -> tuple[frozenset[str], list[Broken]]:
        return min(self._together[goal].items(), key=lambda e: (len(e[0]), sorted(e[0])))

    def implications(self) -> Iterator[tuple[str, str, str]]:
        """Yields (rule, rule broken with it, why) for each rule that was broken, but never alone."""
        for goal in self.goals:
            if goal in self._alone or goal not in self._together:
                continue
            sets = list(self._together[goal])
            always = frozenset.intersection(*sets) - {goal}
            minimal = [s for s in sets if not any(o < s for o in sets)]
            for rule in sorted(always or frozenset.union(*minimal) - {goal}):
                why = (
                    "is broken with it in every config"
                    if rule in always
                    else "is one of those broken with it"
                )
                yield goal, rule, f"{why} that was tried; e.g. {self._smallest(goal)[1][0].note}"

    def unbroken(self) -> tuple[str, ...]:
        """The rules that no config broke."""
        return tuple(g for g in self.goals if g not in self._alone and g not in self._together)


def _what(broken: Broken) -> str:
    """The target of the last damage; e.g. axes of "axes = [3]"."""
    return damaged(broken.note.rpartition("; ")[2])


def _diverse_first(bases: Iterable[Base]) -> list[Base]:
    """The bases in order, but bases with a new trait come first."""
    seen: set[str] = set()
    fresh: list[Base] = []
    rest: list[Base] = []
    for base in bases:
        (rest if seen.issuperset(base.traits) else fresh).append(base)
        seen.update(base.traits)
    return fresh + rest
