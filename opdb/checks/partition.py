"""Divides nodes on two sides into groups that each fit in one graph; no torch, no QNN.

Nodes are numbers in a topological order: ``reads[i]`` holds the nodes that node i reads, all below i.
A group is convex: no path leaves it and comes back, so that no node waits for half of a group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from opdb.core.errors import OpdbError

Reads = Sequence[Sequence[int]]


def groups(reads: Reads, joins: Sequence[bool]) -> list[int]:
    """The group of each node, named by its first member; a node that does not join is alone.

    Groups are connected, the graph of groups has no cycle, and no two groups with an edge between them could be
    one without making a cycle.  The result depends on the arguments only.
    """
    for i, sources in enumerate(reads):
        if any(not 0 <= s < i for s in sources):
            raise OpdbError(f"node {i} reads {list(sources)}: nodes must come after those that they read")
    merged = _Groups(reads, _levels(reads, joins))
    edges = [(s, i) for i in range(len(reads)) if joins[i] for s in reads[i] if joins[s]]
    merges = len(edges)
    while merges:  # a merge can allow one that was refused before
        merges = sum(merged.merge(s, i) for s, i in edges)
        edges = [(s, i) for s, i in edges if merged.root[s] != merged.root[i]]
    return merged.root


def in_order(reads: Reads, group: Sequence[int], sides: Sequence[str]) -> list[list[int]]:
    """The members of each group, with the groups in a topological order that rarely changes sides.

    ``sides``: the side of each node.  Among the groups that are ready, those on the last one's side go first, then the
    one with the first member.
    """
    members: dict[int, list[int]] = defaultdict(list)
    for i, g in enumerate(group):
        members[g].append(i)
    waits = {g: {group[s] for i in nodes for s in reads[i]} - {g} for g, nodes in members.items()}
    readers: dict[int, list[int]] = defaultdict(list)
    for g, sources in waits.items():
        for s in sources:
            readers[s].append(g)
    left = {g: len(sources) for g, sources in waits.items()}
    ready = [g for g, n in left.items() if n == 0]
    out: list[list[int]] = []
    side = ""
    while ready:
        chosen = min(ready, key=lambda g: (sides[g] != side, g))
        ready.remove(chosen)
        side = sides[chosen]
        out.append(members[chosen])
        for g in readers[chosen]:
            left[g] -= 1
            if left[g] == 0:
                ready.append(g)
    return out


def _levels(reads: Reads, joins: Sequence[bool]) -> list[int]:
    """A first grouping in one pass: connected joining nodes of the same level.

    A level counts the runs of other nodes above; it never decreases along an edge and increases on the way from
    another node to a joining one, so that no path can come back to a group.
    """
    level = [0] * len(reads)
    root = list(range(len(reads)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    for i, sources in enumerate(reads):
        level[i] = max((level[s] + (joins[i] and not joins[s]) for s in sources), default=0)
        for s in sources:
            if joins[i] and joins[s] and level[s] == level[i]:
                a, b = sorted((find(s), find(i)))
                root[b] = a
    return [find(i) for i in range(len(reads))]


class _Groups:
    """The graph of groups.  ``root``: the group of each node."""

    def __init__(self, reads: Reads, root: list[int]) -> None:
        self.root = root
        self.members: dict[int, list[int]] = defaultdict(list)
        for i, g in enumerate(root):
            self.members[g].append(i)
        self.after: dict[int, set[int]] = {g: set() for g in self.members}
        self.before: dict[int, set[int]] = {g: set() for g in self.members}
        for i, sources in enumerate(reads):
            for s in sources:
                if root[s] != root[i]:
                    self.after[root[s]].add(root[i])
                    self.before[root[i]].add(root[s])

    def merge(self, source: int, reader: int) -> bool:
        """Merges the groups of two nodes if they differ and no path through a third group connects them; returns True if it did."""
        a, b = self.root[source], self.root[reader]
        if a == b or self._around(a, b):
            return False
        keep, gone = min(a, b), max(a, b)
        for i in self.members[gone]:
            self.root[i] = keep
        self.members[keep] = sorted(self.members[keep] + self.members.pop(gone))
        for here, there in ((self.after, self.before), (self.before, self.after)):
            for g in here.pop(gone):
                there[g].discard(gone)
                there[g].add(keep)
                here[keep].add(g)
        for neighbors in (self.after[keep], self.before[keep]):
            neighbors.difference_update((keep, gone))
        return True

    def _around(self, a: int, b: int) -> bool:
        """True if a path leads from group ``a`` through another one to ``b``."""
        last = self.members[b][-1]
        seen, stack = {a, b}, [a]
        while stack:
            at = stack.pop()
            for g in self.after[at]:
                if g == b and at != a:
                    return True
                # a group whose first member comes after all of b cannot lead to b
                if g not in seen and self.members[g][0] < last:
                    seen.add(g)
                    stack.append(g)
        return False
