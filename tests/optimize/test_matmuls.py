"""A MatMul reads the other way round what two Transposes turn."""

from __future__ import annotations

import pytest
from graphs import HTP, Made, agree, kinds, numbers, passed

from opdb.graph import QnnGraph


def scores(first: bool = True, side: int = 1) -> QnnGraph:
    """Queries by keys: [1, 6, 2, 4] -> [1, 2, 6, 4] -> [1, 2, 4, 6]."""
    made = Made()
    q = made.input(1, 2, 5, 4)
    shape = (1, 6, 2, 4) if first else (1, 2, 6, 4)
    k = made.op("Relu", [made.input(*shape)], shape)
    if first:
        k = made.op("Transpose", [k], (1, 2, 6, 4), [numbers("perm", 0, 2, 1, 3)])
    k = made.op("Transpose", [k], (1, 2, 4, 6), [numbers("perm", 0, 1, 3, 2)])
    if side:
        return made.output(made.op("MatMul", [q, k], (1, 2, 5, 6)))
    return made.output(made.op("MatMul", [k, made.input(1, 2, 6, 3)], (1, 2, 4, 3)))


@pytest.mark.parametrize("side", [0, 1])
def test_the_second_transpose_is_gone(side: int) -> None:
    graph = scores(side=side)
    after = passed(graph, "transpose-in-matmul", "drop-dead", target=HTP)
    agree(graph, after.graph, 1e-6)
    assert kinds(after.graph) == ["Relu", "Transpose", "MatMul"]
    assert [p.name for p in after.graph.ops[-1].params if p.value] == [f"transpose_in{side}"]


def test_a_single_transpose_and_another_order_stay() -> None:
    assert passed(scores(first=False), "transpose-in-matmul").counts == {}
    other = Made()
    x = other.op("Transpose", [other.input(1, 6, 2, 4)], (1, 2, 6, 4), [numbers("perm", 0, 2, 1, 3)])
    x = other.op("Transpose", [x], (2, 1, 4, 6), [numbers("perm", 1, 0, 3, 2)])
    other.output(other.op("MatMul", [other.input(2, 1, 5, 4), x], (2, 1, 5, 6)))
    assert passed(other.graph, "transpose-in-matmul").counts == {}
