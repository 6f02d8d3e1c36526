"""Compares two estimates: the effect of one rewrite, one option or one version inside a whole graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from opdb.measure.cost.figures import Estimate, Group

#: Smaller relative differences may come from another order of the same work (docs/guides/cost.md).
NOISE = 0.02


@dataclass(frozen=True)
class Changed:
    """The groups with the same kinds of ops, and their time in each of two graphs; in microseconds."""

    ops: str
    before: float
    after: float

    @property
    def us(self) -> float:
        return self.after - self.before


@dataclass(frozen=True)
class Difference:
    """The additional cost of ``after`` over ``before``; negative figures are savings."""

    before: Estimate
    after: Estimate

    @property
    def cycles(self) -> int:
        return self.after.cycles - self.before.cycles

    @property
    def us(self) -> float:
        return self.after.us - self.before.us

    @property
    def ratio(self) -> float:
        """The cycles of ``after`` divided by those of ``before``."""
        return self.after.cycles / self.before.cycles

    @property
    def noise(self) -> bool:
        """True if scheduling alone can explain the difference."""
        return abs(self.ratio - 1) < NOISE

    @property
    def same_simulator(self) -> bool:
        """True if both come from one library and one simulated chip; otherwise that alone makes figures differ."""
        a, b = self.before, self.after
        return (a.build_id, a.chip) == (b.build_id, b.chip)

    def by_ops(self) -> tuple[Changed, ...]:
        """The groups of both by the kinds of their ops, the largest difference first; () without traces."""
        before, after = _summed(self.before.groups), _summed(self.after.groups)
        made = [Changed(ops, before[ops], after[ops]) for ops in {**before, **after}]
        return tuple(sorted(made, key=lambda c: -abs(c.us)))


def compare(before: Estimate, after: Estimate) -> Difference:
    """The difference of two estimates of graphs that do the same; e.g. a whole graph with a rewrite and without it."""
    return Difference(before, after)


def _summed(groups: Iterable[Group]) -> defaultdict[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for group in groups:
        found[kinds(group)] += group.us
    return found


def kinds(group: Group) -> str:
    """The kinds of a group's ops in order, e.g. "Conv2d + Relu"; the name of a group without nodes."""
    counted: list[tuple[str, int]] = []
    for op in group.ops:
        if counted and counted[-1][0] == op:
            counted[-1] = (op, counted[-1][1] + 1)
        else:
            counted.append((op, 1))
    return " + ".join(op if n == 1 else f"{n} {op}" for op, n in counted) or group.node
