"""Slices of a Reshape's result move before the Reshape; bit for bit."""

from __future__ import annotations

import pytest
from graphs import HTP, Made, agree, kinds, number, numbers, passed

from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig, Quant


def sliced(made: Made, x: str, axis: int, begin: int, end: int, step: int = 1, shrink: bool = False) -> str:
    shape = made.graph.tensors[x].shape
    ranges = [(0, d, 1) for d in shape]
    ranges[axis] = (begin, end, step)
    kept = [len(range(begin, end, step)) if i == axis else d for i, d in enumerate(shape)]
    if shrink:
        kept.pop(axis)
    params = [
        ParamConfig("ranges", "i32", tuple(n for r in ranges for n in r), (len(shape), 3)),
        number("shrink_axes", 1 << axis if shrink else 0),
    ]
    return made.op("StridedSlice", [x], kept, params)


def attention(quant: Quant | None = None, shrink: bool = True) -> QnnGraph:
    """torch's MultiheadAttention: [5, 24] -> [5, 3, 1, 8] -> three of [5, 1, 8]."""
    made = Made()
    x = made.op("Relu", [made.input(5, 24, dtype="uq8" if quant else "f32", quant=quant)], (5, 24))
    x = made.op("Reshape", [x], (5, 3, 1, 8))
    return made.output(*(sliced(made, x, 1, i, i + 1, shrink=shrink) for i in range(3)))


@pytest.mark.parametrize("shrink", [True, False])
@pytest.mark.parametrize("quant", [None, Quant("SCALE_OFFSET", (0.02,), (-128,))])
def test_query_key_and_value_are_sliced_before_the_reshape(quant: Quant | None, shrink: bool) -> None:
    graph = attention(quant, shrink)
    after = passed(graph, "slice-before-reshapes", target=HTP)
    assert after.counts == {"slice-before-reshapes": 3}
    agree(graph, after.graph, None)
    assert kinds(after.graph) == ["Relu", *["StridedSlice", "Reshape"] * 3]
    assert [
        after.graph.tensors[op.outputs[0]].shape for op in after.graph.ops if op.op == "StridedSlice"
    ] == [(5, 8)] * 3


def test_slices_may_be_read_in_between() -> None:
    made = Made()
    x = made.op("Reshape", [made.op("Relu", [made.input(5, 24)], (5, 24))], (5, 3, 1, 8))
    first = made.op("Tanh", [sliced(made, x, 1, 0, 1)], (5, 1, 1, 8))
    graph = made.output(first, made.op("ElementWiseAdd", [first, sliced(made, x, 1, 1, 2)], (5, 1, 1, 8)))
    after = passed(graph, "slice-before-reshapes", target=HTP)
    assert after.counts == {"slice-before-reshapes": 2}
    agree(graph, after.graph, None)


@pytest.mark.parametrize(
    "axis, begin, end, step, goes",
    [
        (1, 1, 3, 1, True),
        (1, 0, 3, 2, False),  # every second part
        (3, 2, 5, 1, False),  # inside each part
        (0, 1, 4, 1, False),  # a dimension that the Reshape keeps
    ],
)
def test_only_slices_of_whole_pieces_move(axis: int, begin: int, end: int, step: int, goes: bool) -> None:
    made = Made()
    x = made.op("Relu", [made.input(5, 24)], (5, 24))
    x = made.op("Reshape", [x], (5, 3, 1, 8))
    graph = made.output(sliced(made, x, axis, begin, end, step))
    after = passed(graph, "slice-before-reshapes", target=HTP)
    agree(graph, after.graph, None)
    assert bool(after.counts) == goes


def test_a_reshape_with_another_reader_is_kept() -> None:
    made = Made()
    x = made.op("Reshape", [made.op("Relu", [made.input(5, 24)], (5, 24))], (5, 3, 1, 8))
    graph = made.output(sliced(made, x, 1, 0, 1), made.op("Tanh", [x], (5, 3, 1, 8)))
    assert passed(graph, "slice-before-reshapes", target=HTP).counts == {}


def test_a_reshape_that_mixes_dimensions_is_kept() -> None:
    made = Made()
    x = made.op("Reshape", [made.op("Relu", [made.input(5, 4, 6)], (5, 4, 6))], (5, 3, 8))
    graph = made.output(sliced(made, x, 1, 0, 1))
    assert passed(graph, "slice-before-reshapes", target=HTP).counts == {}
    made = Made()
    x = made.op("Relu", [made.input(2, 12)], (2, 12))
    x = made.op("Transpose", [x], (12, 2), [numbers("perm", 1, 0)])
    graph = made.output(sliced(made, x, 0, 0, 4))
    assert passed(graph, "slice-before-reshapes", target=HTP).counts == {}
