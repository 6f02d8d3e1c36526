"""The graph while passes edit it: links, sweeping, legality."""

from __future__ import annotations

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.passes import Pass, optimize
from opdb.lower.passes.edit import Edit

TARGET = Target("HTP", "SM8650")


def chain() -> QnnGraph:
    """x -> Relu -> a -> Relu -> y, and a constant added after that."""
    graph = QnnGraph("chain")
    for name, kind in (("x", "APP_WRITE"), ("a", "NATIVE"), ("b", "NATIVE"), ("y", "APP_READ")):
        graph.tensors[name] = GraphTensor(name, "f32", (1, 4), kind)
    graph.tensors["one"] = GraphTensor("one", "f32", (4,), "STATIC", np.ones(4, np.float32))
    graph.ops = [
        GraphOp("first", "Relu", ("x",), (), ("a",)),
        GraphOp("second", "Relu", ("a",), (), ("b",)),
        GraphOp("third", "ElementWiseAdd", ("b", "one"), (), ("y",)),
    ]
    return graph


def test_links_follow_changes() -> None:
    edit = Edit(chain(), TARGET)
    first, second, third = edit.ops
    assert edit.maker("a") is first and edit.readers("a") == (second,) and edit.only_reader("b") is third
    assert (
        edit.maker("x") is None and edit.only_reader("y") is None and edit.constant("one").tolist() == [1] * 4
    )
    edit.redirect("b", "a")
    assert edit.readers("a")[-1].inputs == ("a", "one") and not edit.readers("b")
    assert edit.drop_dead() == 1 and "b" not in edit.tensors
    assert [op.name for op in edit.graph().ops] == ["first", "third"]


def test_unused_tensors_are_removed() -> None:
    edit = Edit(chain(), TARGET)
    third = edit.ops[2]
    edit.replace([third], [GraphOp("last", "Relu", ("b",), (), ("y",))])
    assert "one" not in edit.tensors and edit.maker("y") is not None


def test_new_ops_are_judged() -> None:
    edit = Edit(chain(), TARGET)
    assert edit.legal(edit.ops[0])
    assert not edit.legal(GraphOp("bad", "Relu", ("x",), (), ("one",)))
    assert not edit.legal(GraphOp("bad", "NoSuchOp", ("x",), (), ("y",)))


def test_passes_run_to_a_fixed_point_on_a_copy() -> None:
    def drop_second(edit: Edit) -> int:
        for op in edit.ops:
            if op.name == "second":
                edit.redirect("b", "a")
                return edit.drop_dead()
        return 0

    graph = chain()
    one = Pass("drop-second", "drops the second Relu", True, drop_second)
    made = optimize(graph, TARGET, passes=(one,))
    assert made.counts == {"drop-second": 1} and len(made.graph.ops) == 2 and len(graph.ops) == 3
    assert optimize(graph, TARGET, without=["drop-second"], passes=(one,)).graph == graph


def test_an_unknown_pass_is_refused() -> None:
    with pytest.raises(OpdbError, match="no pass 'nothing'"):
        optimize(chain(), TARGET, without=["nothing"])
