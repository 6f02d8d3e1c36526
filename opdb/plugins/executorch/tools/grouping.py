"""Predicts which nodes share a graph in ExecuTorch: the greedy rule of PyTorch's CapabilityBasedPartitioner, on numbers.

Nodes are visited from the last to the first.  A supported one starts a partition, which is merged with each existing
partition, the oldest first, connected or not, unless a path would leave the two and come back.
"""

from __future__ import annotations

from collections.abc import Sequence


class _Partitions:
    """Partitions of nodes; sets of nodes are bits of integers."""

    def __init__(self, users: Sequence[int], below: Sequence[int]) -> None:
        self.users, self.below = users, below  # for each node: its direct users; all nodes reachable from it
        self.nodes: list[int] = []  # of each partition, oldest first
        self.outward: list[int] = []  # all users of its nodes
        self.reached: list[int] = []  # all nodes reachable from its nodes

    def start(self, node: int) -> None:
        self.nodes.append(1 << node)
        self.outward.append(self.users[node])
        self.reached.append(self.below[node])

    def apart(self, a: int, b: int) -> bool:
        """True if one reaches the other but never directly: then something is between them."""
        a_nodes, b_nodes = self.nodes[a], self.nodes[b]
        return bool(
            (self.reached[a] & b_nodes and not self.outward[a] & b_nodes)
            or (self.reached[b] & a_nodes and not self.outward[b] & a_nodes)
        )

    def merge(self, a: int, b: int) -> bool:
        """Merges partition ``b`` into ``a`` unless that makes a cycle; returns True if it did."""
        if self.apart(a, b):
            return False
        both = self.nodes[a] | self.nodes[b]
        if self._returns((self.outward[a] | self.outward[b]) & ~both, both, (a, b)):
            return False
        self.nodes[a] = both
        self.outward[a] |= self.outward[b]
        self.reached[a] |= self.reached[b]
        del self.nodes[b], self.outward[b], self.reached[b]
        return True

    def _returns(self, starts: int, goal: int, without: tuple[int, int]) -> bool:
        """True if a path from ``starts`` leads to ``goal``; if it enters a partition, it leaves from all of its nodes."""
        seen = starts
        while starts:
            lowest = starts & -starts
            seen |= self.below[lowest.bit_length() - 1]
            starts ^= lowest
        if seen & goal:
            return True
        others = [i for i in range(len(self.nodes)) if i not in without]
        while not seen & goal:
            met = [i for i in others if self.nodes[i] & seen]
            if not met:
                return False
            for i in met:
                seen |= self.reached[i]
            others = [i for i in others if i not in met]
        return True


def as_executorch(reads: Sequence[Sequence[int]], joins: Sequence[bool]) -> list[int]:
    """The partition of each node that joins, -1 for the others.

    ``reads``: the nodes that each node reads, all before it.  ``joins``: True for supported nodes.
    """
    count = len(reads)
    users = [0] * count
    for i, sources in enumerate(reads):
        for s in sources:
            users[s] |= 1 << i
    below = list(users)
    for i in reversed(range(count)):
        rest = users[i]
        while rest:
            lowest = rest & -rest
            below[i] |= below[lowest.bit_length() - 1]
            rest ^= lowest
    partitions = _Partitions(users, below)
    for i in reversed(range(count)):
        if not joins[i]:
            continue
        partitions.start(i)
        into, other = len(partitions.nodes) - 1, 0
        while other < len(partitions.nodes):
            low, high = min(into, other), max(into, other)
            merged = low != high and partitions.merge(low, high)
            other += not (merged and high == other)  # else the next one has moved to this index
            into = low if merged else into
    found = [-1] * count
    for number, nodes in enumerate(partitions.nodes):
        while nodes:
            lowest = nodes & -nodes
            found[lowest.bit_length() - 1] = number
            nodes ^= lowest
    return found
