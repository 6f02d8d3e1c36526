"""Properties of a node in its graph: whether it is computed only from constants, and the ranks and shapes of its readers."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from opdb.programs.torch.views import of_constants, read_in_ranks, shown

aten = torch.ops.aten


def chain(graph: Graph, start: Node) -> Node:
    """A chain deeper than Python's recursion limit, in which each node is read twice by the next."""
    for _ in range(3000):
        start = graph.call_function(aten.add.Tensor, (start, start))
    return start


def test_deep_graphs_are_recognized_as_constant_or_not() -> None:
    graph = Graph()
    weight, x = graph.placeholder("weight"), graph.placeholder("x")
    made = chain(graph, weight)
    assert of_constants(made, {"weight"})
    assert not of_constants(chain(graph, x), {"weight"})
    assert not of_constants(graph.call_function(aten.mul.Tensor, (made, x)), {"weight"})
    assert of_constants(graph.call_function(aten.full.default, ([1], 1.5)), ())


def test_the_ranks_in_which_a_result_is_read_are_found() -> None:
    class Some(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            y = x * 2
            return y.sum(0), y.reshape(2, 3, 4).unsqueeze(0).repeat(1, 2, 1, 1), y.relu()[None, None, None]

    graph = torch.export.export(Some(), (torch.ones(4, 6),)).graph
    (product,) = (n for n in graph.nodes if n.target is aten.mul.Tensor)
    assert read_in_ranks(product) == {1, 2, 3, 4}  # not 5: a different result is read there


def test_shapes_of_views_are_found_through_permutations() -> None:
    class Some(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = x.relu()
            return (y.permute(1, 0) * 2 + 1).reshape(6, 2, 2).unsqueeze(0), y.exp().reshape(8, 3)

    graph = torch.export.export(Some(), (torch.ones(4, 6),)).graph
    (relu,) = (n for n in graph.nodes if n.target is aten.relu.default)
    assert shown(relu) == {(6, 2, 2), (1, 6, 2, 2)}
