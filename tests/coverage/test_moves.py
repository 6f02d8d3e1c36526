"""What a graph says of a node: whether constants alone make it."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from opdb.coverage.moves import of_constants

aten = torch.ops.aten


def chain(graph: Graph, start: Node) -> Node:
    """Deeper than Python's calls may be, and each node read twice by the next."""
    for _ in range(3000):
        start = graph.call_function(aten.add.Tensor, (start, start))
    return start


def test_a_deep_graph_of_constants_and_one_of_an_input() -> None:
    graph = Graph()
    weight, x = graph.placeholder("weight"), graph.placeholder("x")
    made = chain(graph, weight)
    assert of_constants(made, {"weight"})
    assert not of_constants(chain(graph, x), {"weight"})
    assert not of_constants(graph.call_function(aten.mul.Tensor, (made, x)), {"weight"})
    assert of_constants(graph.call_function(aten.full.default, ([1], 1.5)), ())
