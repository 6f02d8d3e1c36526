"""The partitions of a graph beside those of PyTorch's CapabilityBasedPartitioner, which ExecuTorch uses."""

from __future__ import annotations

import random

import pytest
import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from opdb.plugins.executorch.tools.grouping import as_executorch

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.executorch]


class Given(OperatorSupportBase):
    def __init__(self, supported: set[torch.fx.Node]) -> None:
        self.supported = supported

    def is_node_supported(self, submodules: object, node: torch.fx.Node) -> bool:
        return node in self.supported


def pytorchs(reads: list[list[int]], joins: list[bool]) -> set[frozenset[int]]:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    nodes = [graph.call_function(torch.add, ()) for _ in reads]
    for node, sources in zip(nodes, reads, strict=True):
        node.args = tuple(nodes[s] for s in sources) or (x,)
    graph.output(tuple(nodes))
    module = torch.fx.GraphModule({}, graph)
    given = Given({n for n, j in zip(nodes, joins, strict=True) if j})
    partitions = CapabilityBasedPartitioner(
        module, given, allows_single_node_partition=True
    ).propose_partitions()
    place = {n: i for i, n in enumerate(nodes)}
    return {frozenset(place[n] for n in p.nodes) for p in partitions}


def ours(reads: list[list[int]], joins: list[bool]) -> set[frozenset[int]]:
    found: dict[int, set[int]] = {}
    for i, g in enumerate(as_executorch(reads, joins)):
        if g >= 0:
            found.setdefault(g, set()).add(i)
    return {frozenset(nodes) for nodes in found.values()}


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs_are_partitioned_like_pytorchs(seed: int) -> None:
    rng = random.Random(seed)
    count, wide = rng.randint(1, 40), rng.choice((2, 5, 40))
    reads = [
        sorted({rng.randrange(max(0, i - wide), i) for _ in range(rng.randint(0, 3))}) if i else []
        for i in range(count)
    ]
    joins = [rng.random() < rng.choice((0.5, 0.8)) for _ in range(count)]
    assert ours(reads, joins) == pytorchs(reads, joins)


def test_unconnected_parts_share_a_graph() -> None:
    assert ours([[], []], [True, True]) == {frozenset({0, 1})}


def test_a_host_node_separates_two_partitions() -> None:
    assert ours([[], [0], [1]], [True, False, True]) == {frozenset({0}), frozenset({2})}
    assert ours([[], [0], [0, 1]], [True, False, True]) == {frozenset({0}), frozenset({2})}


def test_a_long_graph_is_partitioned_quickly() -> None:
    """1,500 nodes, a third of them on the CPU: would take seconds if partitions were walked node by node."""
    reads = [[i - 1] if i else [] for i in range(1500)]
    found = as_executorch(reads, [i % 3 != 0 for i in range(1500)])
    assert len({g for g in found if g >= 0}) == 500
