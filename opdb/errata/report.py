"""The errata that a program meets, as commands print them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from opdb.errata.policy import AVOID, WARN, costs, seen_where
from opdb.errata.records import RECORDS


@dataclass(frozen=True)
class Met:
    """The ids of the errata that the ops of a node avoid, and of those that they may show."""

    avoided: tuple[str, ...] = ()
    warned: tuple[str, ...] = ()


@dataclass(frozen=True)
class ErratumCount:
    """One erratum, and the number of nodes that meet it.  ``policy``: AVOID or WARN."""

    erratum: str
    policy: str
    nodes: int
    title: str
    seen: str
    cost: str  # of avoiding it; e.g. costs one Concat

    @property
    def text(self) -> str:
        nodes = f"{self.nodes} node{'s' * (self.nodes != 1)}"
        if self.policy == AVOID:
            return f"avoided {self.erratum} in {nodes}: {self.title}; that {self.cost}"
        return f"warning {self.erratum} in {nodes}: {self.title} ({self.seen}); avoiding it {self.cost}"


def counted(avoided: Iterable[str], warned: Iterable[str]) -> tuple[ErratumCount, ...]:
    """``avoided`` and ``warned`` have an id for each node.  Errata that are avoided come first, then by id."""
    return tuple(
        ErratumCount(i, policy, n, RECORDS[i].title, seen_where(RECORDS[i]), costs(RECORDS[i]))
        for policy, ids in ((AVOID, avoided), (WARN, warned))
        for i, n in sorted(Counter(ids).items())
    )
