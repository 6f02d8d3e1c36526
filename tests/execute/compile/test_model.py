"""Programs and op configs as graphs to compile."""

from __future__ import annotations

from typing import Any

import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import ConfigError, OpConfig, TensorConfig, from_json
from opdb.execute.compile.model import chosen, config_graph, config_graphs, graph_name, judged

F = {"dtype": "FLOAT_32", "shape": [2, 3]}


def config(op: str = "Relu", *, inputs: Any = (F,), outputs: Any = (F,), **more: Any) -> OpConfig:
    return from_json({"op": op, "inputs": list(inputs), "outputs": list(outputs), **more})


def test_a_config_becomes_a_graph() -> None:
    static = F | {"type": "STATIC", "data": [[1, 2, 3], [4, 5, 6]], "name": "w"}
    graph = config_graph(config("Op", inputs=[F, static, {"type": "NULL"}, F], package="mine"), "g")
    assert {t.name: t.type for t in graph.tensors.values()} == {
        "in0": "APP_WRITE", "w": "STATIC", "in3": "APP_WRITE", "out0": "APP_READ",
    }  # fmt: skip
    (op,) = graph.ops
    assert (op.inputs, op.outputs, op.op, op.package) == (("in0", "w", None, "in3"), ("out0",), "Op", "mine")
    assert graph.op_config(op).inputs[1].data == [[1, 2, 3], [4, 5, 6]]


def test_slots_are_put_in_order() -> None:
    names = {"bias": [4], "weight": [4, 3], "x": [2, 3]}
    inputs = [F | {"name": n, "shape": s} for n, s in names.items()]
    graph = config_graph(config("FullyConnected", inputs=inputs, outputs=[F | {"shape": [2, 4]}]), "g")
    assert graph.ops[0].inputs == ("x", "weight", "bias")
    assert judged([graph], Target("CPU")) == {}
    graph = config_graph(config("FullyConnected", inputs=[inputs[2], inputs[1]]), "g")
    assert graph.ops[0].inputs == ("x", "weight")


def test_a_tensor_may_be_used_twice() -> None:
    x = F | {"name": "x"}
    graph = config_graph(config("ElementWiseAdd", inputs=[x, x]), "g")
    assert (list(graph.tensors), graph.ops[0].inputs) == (["x", "out0"], ("x", "x"))


def test_graphs_are_named_after_ids_and_models() -> None:
    graphs = config_graphs([("f:1", config(id="first")), ("f:2", config("Sigmoid"))])
    assert [g.name for g in graphs] == ["first", "Sigmoid_1"]
    assert chosen(graphs, None) == graphs
    assert chosen(graphs, "first") == graphs[:1]
    with pytest.raises(OpdbError, match="the file has the op configs first, Sigmoid_1"):
        chosen(graphs, "third")
    for model, name in (
        ("models/net v2.pt2", "net_v2"), ("a.b:make", "make"), ("ü.pt2", "ü"), (".pt2", "graph"), ("--.pt2", "graph"),
    ):  # fmt: skip
        assert graph_name(model) == name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (config(inputs=[F | {"type": "STATIC"}]), r"inputs\.in0: a static tensor is compiled with its data"),
        (config(inputs=[F | {"name": "x"}], outputs=[F | {"name": "x"}]), r"outputs\.x: another tensor has the name 'x'"),
        (config(inputs=[F | {"name": "x"}, F | {"name": "x", "shape": [1]}]), r"inputs\.x: another tensor has"),
        (config(outputs=[F | {"name": "y"}, F | {"name": "y"}]), r"outputs\.y: another tensor has the name 'y'"),
    ],
)  # fmt: skip
def test_faulty_configs_are_rejected(wrong: OpConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=f"here: {message}"):
        config_graphs([("here", wrong)])


def test_duplicate_ids_are_rejected() -> None:
    with pytest.raises(ConfigError, match="f:2: id 'a' is that of f:1 too"):
        config_graphs([("f:1", config(id="a")), ("f:2", config(id="a"))])


def test_rejected_graphs_get_reasons() -> None:
    good = config_graph(config(), "good")
    bad = config_graph(config(outputs=[F | {"shape": [3, 2]}]), "bad")
    unknown = config_graph(OpConfig("NoSpec", (TensorConfig("x", "f32", (1,)),)), "unknown")
    found = judged([good, bad, unknown], Target("HTP", "SM8650"))
    assert list(found) == ["bad"]
    assert all(reason.startswith("Relu.") for reason in found["bad"])
