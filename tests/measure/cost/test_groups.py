"""Division of a timeline among nodes, and grouping of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.measure.cost.difference import kinds
from opdb.measure.cost.figures import Group, SimulatedChip
from opdb.measure.cost.groups import IDLE, INPUTS, OUTPUTS, OWN, engines, groups, shares
from opdb.measure.cost.trace import Slice

CHIP = SimulatedChip("SA8255", "Kailua", 1000.0, 4, 8 << 20)
NAMES = {1: "a", 2: "b"}


def at(
    number: int, start: float, duration: float, engine: str = "HVX", thread: int = 1, op: str = "q::x"
) -> Slice:
    return Slice(number, op, engine, thread, start, duration)


def test_time_is_split_among_computing_threads_then_dma() -> None:
    found = shares(
        [at(1, 0, 10), at(2, 5, 10, thread=2), at(1, 0, 30, "DMA", 5), at(2, 40, 10, "HMX", 0)], NAMES
    )
    assert dict(found.compute) == {"a": 7.5, "b": 17.5, IDLE: 10.0}
    assert dict(found.dma) == {"a": 15.0}
    assert found.end == 50
    assert engines([at(1, 0, 25), at(1, 0, 10, "DMA", 5)], 50, CHIP) == {"DMA": 0.2, "HVX": 0.125}


def test_two_threads_of_a_node_count_twice() -> None:
    found = shares([at(1, 0, 12), at(1, 0, 12, thread=2), at(2, 0, 12, thread=3)], NAMES)
    assert dict(found.compute) == {"a": 8.0, "b": 4.0}


def test_work_added_by_the_library_has_reserved_names() -> None:
    ops = {"q::*InputSlice": INPUTS, "default_dma (q::*OutputCast)": OUTPUTS, "q::ForceFormat": OWN}
    for op, name in ops.items():
        assert dict(shares([at(9, 0, 3, op=op)], NAMES).compute) == {name: 3.0}


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4),
            st.integers(0, 60),
            st.integers(0, 20),
            st.sampled_from(["HVX", "HMX", "DMA", "scalar"]),
        ),
        max_size=20,
    )
)
def test_the_shares_always_sum_to_the_whole(made: list[tuple[int, int, int, str]]) -> None:
    found = shares([at(n, start, duration, engine) for n, start, duration, engine in made], NAMES)
    assert sum(found.compute.values()) + sum(found.dma.values()) == pytest.approx(found.end)
    assert found.end == max((start + duration for _, start, duration, _ in made if duration), default=0)


def chain(*kinds_: str) -> QnnGraph:
    """A chain of ops, n0 to n9, from x to y."""
    count = len(kinds_)
    names = ["x", *(f"t{i}" for i in range(count - 1)), "y"]
    ends = {"x": "APP_WRITE", "y": "APP_READ"}
    tensors = {n: GraphTensor(n, "f32", (4,), ends.get(n, "NATIVE")) for n in names}
    ops = [
        GraphOp(f"n{i}", kind, (names[i],), (), (names[i + 1],), origin=f"o{i // 2}")
        for i, kind in enumerate(kinds_)
    ]
    return QnnGraph("net", tensors, ops)


def test_unnamed_nodes_are_charged_to_their_first_reader_or_else_their_producer() -> None:
    graph = chain("Conv2d", "Relu", "Transpose", "Conv2d", "Reshape")
    found = shares([at(1, 0, 10), at(2, 10, 30), at(9, 40, 10, op="q::*Output")], {1: "n1", 2: "n3"})
    first, second, ends = groups(graph, found, CHIP, ["n2"])
    assert (first.node, first.nodes, first.ops, first.origins) == (
        "n1",
        ("n0", "n1"),
        ("Conv2d", "Relu"),
        ("o0",),
    )
    assert (second.node, second.nodes, second.origins) == ("n3", ("n2", "n3", "n4"), ("o1", "o2"))
    assert (ends.node, ends.nodes) == (OUTPUTS, ())
    assert [g.us for g in (first, second, ends)] == pytest.approx([0.01, 0.03, 0.01])
    assert [g.share for g in (first, second, ends)] == pytest.approx([0.2, 0.6, 0.2])
    assert [g.missing for g in (first, second, ends)] == [False, True, False]


def test_a_node_without_named_neighbors_costs_nothing() -> None:
    (alone,) = groups(chain("Cast"), shares([], {}), CHIP, ())
    assert (alone.nodes, alone.us, alone.share) == (("n0",), 0.0, 0.0)


@pytest.mark.parametrize(
    ("ops", "text"),
    [
        (("Conv2d", "Relu"), "Conv2d + Relu"),
        (("Transpose", "Transpose", "ElementWiseAdd"), "2 Transpose + ElementWiseAdd"),
        ((), IDLE),
    ],
)
def test_a_group_is_described_by_its_ops(ops: tuple[str, ...], text: str) -> None:
    assert kinds(Group(IDLE, ops, ops, (), 1.0, 0.0, 1.0)) == text
