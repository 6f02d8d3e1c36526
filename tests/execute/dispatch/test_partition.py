"""Groups of random graphs: convex, complete, in order, and none that could be larger."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opdb.checks.partition import groups, in_order
from opdb.core.errors import OpdbError

SIDES = ("qnn", "kernels", "torch")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[str]]:
    """Up to 14 nodes; each reads up to 3 earlier ones, nearby ones more often."""
    n = draw(st.integers(0, 14))
    reads = [
        sorted(draw(st.sets(st.integers(max(0, i - draw(st.sampled_from((2, 14)))), i - 1), max_size=3)))
        if i
        else []
        for i in range(n)
    ]
    return reads, draw(st.lists(st.sampled_from(SIDES), min_size=n, max_size=n))


def paths(n: int, edges: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """All (from, to) with a path of at least one edge."""
    reach = [[(a, b) in edges for b in range(n)] for a in range(n)]
    for k, a, b in itertools.product(range(n), repeat=3):
        reach[a][b] = reach[a][b] or (reach[a][k] and reach[k][b])
    return {(a, b) for a in range(n) for b in range(n) if reach[a][b]}


def acyclic(group: list[int], reads: list[list[int]]) -> bool:
    edges = {(group[s], group[i]) for i, r in enumerate(reads) for s in r if group[s] != group[i]}
    return all(a != b for a, b in paths(len(group), edges))


@settings(max_examples=200)
@given(graphs())
def test_groups_are_convex_connected_and_maximal(case: tuple[list[list[int]], list[str]]) -> None:
    reads, sides = case
    joins = [s == "qnn" for s in sides]
    group = groups(reads, joins)
    n = len(reads)
    edges = {(s, i) for i, r in enumerate(reads) for s in r}
    reach = paths(n, edges)
    for a, b in itertools.product(range(n), repeat=2):
        if group[a] == group[b]:
            assert a == b or (joins[a] and joins[b])
            for x in range(n):  # convex
                assert not ((a, x) in reach and (x, b) in reach) or group[x] == group[a]
    assert acyclic(group, reads)
    for g in set(group):  # connected, named by its first member
        members = [i for i in range(n) if group[i] == g]
        assert members[0] == g
        seen, stack = {g}, [g]
        while stack:
            at = stack.pop()
            near = [m for m in members if ((at, m) in edges or (m, at) in edges) and m not in seen]
            seen.update(near)
            stack += near
        assert seen == set(members)
    for s, i in edges:  # maximal
        if joins[s] and joins[i] and group[s] != group[i]:
            merged = [group[s] if g == group[i] else g for g in group]
            assert not acyclic(merged, reads), f"the groups of {s} and {i} could be one"


@given(graphs())
def test_the_order_is_topological_and_complete(case: tuple[list[list[int]], list[str]]) -> None:
    reads, sides = case
    group = groups(reads, [s == "qnn" for s in sides])
    order = in_order(reads, group, sides)
    assert sorted(i for members in order for i in members) == list(range(len(reads)))
    assert [[group[i] for i in members] for members in order] == [[m[0]] * len(m) for m in order]
    seen: set[int] = set()
    for members in order:
        for i in members:
            assert seen.issuperset(reads[i])
            seen.add(i)
    assert order == in_order(reads, group, sides)


def test_a_diamond_is_not_merged_across_the_host() -> None:
    """0 -> host 1 -> 3 and 0 -> 2 -> 3: a group of 0, 2 and 3 would wait for itself."""
    reads, joins = [[], [0], [0], [1, 2]], [True, False, True, True]
    assert groups(reads, joins) == [0, 1, 0, 3]


def test_a_host_node_beside_a_chain_does_not_cut_it() -> None:
    """0 -> 2 with host 1 -> 2: 1 depends on nothing, so one graph has 0 and 2 after it."""
    assert groups([[], [], [0, 1]], [True, False, True]) == [0, 1, 0]
    assert in_order([[], [], [0, 1]], [0, 1, 0], ["qnn", "torch", "qnn"]) == [[1], [0, 2]]


def test_host_nodes_without_inputs_cut_nothing() -> None:
    """Host nodes 1 and 3 feed 2 and 4: both run before the one graph of 0, 2 and 4."""
    reads = [[], [], [0, 1], [], [0, 2, 3]]
    assert groups(reads, [True, False, True, False, True]) == [0, 1, 0, 3, 0]


def test_a_path_around_a_late_member_is_found() -> None:
    """2 -> host 4 -> 5 forbids 5 in the group of 2, although the group has a member after 5."""
    reads = [[], [], [1], [0, 1], [1, 2], [0, 2, 4], [0, 2]]
    assert groups(reads, [True, False, True, True, False, True, True]) == [0, 1, 0, 0, 4, 5, 0]


def test_nodes_must_come_after_their_inputs() -> None:
    with pytest.raises(OpdbError, match="node 0 reads"):
        groups([[1], []], [True, True])


def test_a_large_graph_takes_seconds_not_minutes() -> None:
    """4000 nodes in residual blocks, every third on the host."""
    n = 4000
    reads = [[i - 1, *([i - 4] if i >= 4 else [])] if i else [] for i in range(n)]
    start = time.perf_counter()
    group = groups(reads, [i % 3 != 0 for i in range(n)])
    assert time.perf_counter() - start < 5
    assert len(set(group)) > n // 3
