"""Chains of Reshapes become one op, or none; bit for bit."""

from __future__ import annotations

import pytest
from graphs import HTP, Made, agree, kinds, number, passed

from opdb.core.graph import QnnGraph
from opdb.core.op_config import Quant


def merged(graph: QnnGraph) -> list[str]:
    after = passed(graph, "merge-reshapes", target=HTP).graph
    agree(graph, after, None)
    assert passed(after, "merge-reshapes", target=HTP).counts == {}
    return kinds(after)


def views(made: Made, x: str, *shapes: tuple[int, ...]) -> str:
    for shape in shapes:
        x = made.op("Reshape", [x], shape)
    return x


def test_a_chain_becomes_one_reshape() -> None:
    made = Made()
    y = views(made, made.op("Relu", [made.input(2, 3, 4)], (2, 3, 4)), (6, 4), (24,), (3, 8))
    assert merged(made.output(made.op("Sigmoid", [y], (3, 8)))) == ["Relu", "Reshape", "Sigmoid"]


def test_an_inverse_pair_is_removed() -> None:
    made = Made()
    y = views(made, made.op("Relu", [made.input(2, 3, 4)], (2, 3, 4)), (6, 4), (2, 3, 4))
    assert merged(made.output(made.op("Sigmoid", [y], (2, 3, 4)))) == ["Relu", "Sigmoid"]


def test_squeeze_and_expand_dims_count_as_reshapes() -> None:
    made = Made()
    x = made.op("ExpandDims", [made.input(2, 3)], (2, 1, 3), [number("axis", 1)])
    y = made.op("Squeeze", [x], (2, 3))
    assert merged(made.output(made.op("Sigmoid", [y], (2, 3)))) == ["Sigmoid"]


def test_a_reshape_with_another_reader_is_kept() -> None:
    made = Made()
    first = views(made, made.op("Relu", [made.input(2, 3, 4)], (2, 3, 4)), (6, 4))
    end = views(made, first, (24,))
    kept = made.op("Sigmoid", [first], (6, 4))
    assert merged(made.output(end, kept)) == ["Relu", "Reshape", "Reshape", "Sigmoid"]


def test_inputs_and_outputs_are_kept() -> None:
    made = Made()
    assert merged(made.output(views(made, made.input(2, 3), (6,), (2, 3)))) == ["Reshape"]
    made = Made()
    relu = made.op("Relu", [made.input(2, 3)], (2, 3))
    assert merged(made.output(relu, views(made, relu, (6,)))) == ["Relu", "Reshape"]


def test_an_otherwise_unread_input_keeps_its_reshape() -> None:
    """A library may refuse an input without readers (CPU-0328)."""
    made = Made()
    x, other = made.input(2, 3), made.input(2, 3)
    made.op("Reshape", [other], (2, 3))
    assert merged(made.output(made.op("Relu", [x], (2, 3)))) == ["Reshape", "Relu"]


@pytest.mark.parametrize("scale", [0.02, 0.04])
def test_a_reshape_that_changes_the_encoding_is_kept(scale: float) -> None:
    made = Made()
    x = made.input(2, 3, dtype="uq8", quant=Quant("SCALE_OFFSET", (0.02,), (0,)))
    y = made.op("Reshape", [x], (6,), quant=Quant("SCALE_OFFSET", (scale,), (0,)))
    z = made.op("Reshape", [y], (3, 2))
    graph = made.output(made.op("Relu", [z], (3, 2)))
    after = passed(graph, "merge-reshapes").graph
    assert kinds(after).count("Reshape") == (1 if scale == 0.02 else 2)
