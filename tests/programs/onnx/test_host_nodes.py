"""Nodes of an ONNX file without a PyTorch form have a row with the reason; every other node has one, too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from opdb.catalog.targets.target import Target
from opdb.checks.file_names import with_names
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.execute.dispatch import Dispatcher
from opdb.execute.dispatch.plan import partition
from opdb.programs.load import load_model, load_program
from opdb.programs.onnx.files import unread
from opdb.runtime.qnn.backend import Backend

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def value(name: str, shape: Sequence[Any] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: dict[str, Any] | None = None,
    inner: Sequence[onnx.ValueInfoProto] = (),
    opset: int = 17,
) -> str:
    held = [numpy_helper.from_array(np.asarray(w), n) for n, w in (weights or {}).items()]
    graph = helper.make_graph(nodes, "graph", inputs, outputs, held, value_info=inner)
    domains = {n.domain for n in nodes if n.domain}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in sorted(domains))]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    return str(path)


def rows(path: str) -> list[tuple[str, str, str]]:
    """Verdict, target and first reason of each row."""
    found = with_names(check_program(load_program(path), HTP), path).rows
    return [(r.verdict, r.target, r.reasons[0]["message"] if r.reasons else "") for r in found]


def branches() -> onnx.NodeProto:
    then = helper.make_graph([node("Relu", ["x"], ["t"])], "then", [], [value("t", [2, 8])])
    other = helper.make_graph([node("Neg", ["x"], ["e"])], "else", [], [value("e", [2, 8])])
    return node("If", ["c"], ["a"], then_branch=then, else_branch=other)


def on_data(path: Path) -> str:
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "z"], ["c"]),
        branches(),
        node("Exp", ["a"], ["y"]),
    ]
    return save(path, nodes, [value("x", [2, 8])], [value("y", [2, 8])], {"z": np.float32(0)})


def test_an_if_on_data_is_one_row(tmp_path: Path) -> None:
    """ONNX's shape inference gives its shape, so the following nodes are judged."""
    found = rows(on_data(tmp_path / "if.onnx"))
    assert [f[0] for f in found] == ["supported", "supported", "host", "supported"]
    assert found[2][1:] == ("onnx.If", "its condition is only known when the model runs; QNN has the op If")


def test_a_host_node_matches_onnx_runtime(tmp_path: Path) -> None:
    """It also does in a saved program."""
    path = on_data(tmp_path / "if.onnx")
    torch.export.save(load_program(path), tmp_path / "if.pt2")
    module, _ = load_model(str(tmp_path / "if.pt2"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    for given in (x, x - 5):
        (wanted,) = session.run(None, {"x": given.numpy()})
        np.testing.assert_allclose(module(given).numpy(), wanted, rtol=1e-6)


@pytest.mark.vendor
def test_a_plan_runs_a_host_node_between_two_graphs(tmp_path: Path) -> None:
    path = on_data(tmp_path / "if.onnx")
    plan = partition(load_program(path), Target("CPU"), unsupported="host", host="torch")
    assert [p.runs_on for p in plan.placements] == ["qnn", "qnn", "torch", "qnn"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with Backend.open("CPU") as cpu, Dispatcher(plan, cpu) as dispatcher:
        for shift in (1, -5):
            x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(2, 8) + np.float32(shift)
            (wanted,) = session.run(None, {"x": x})
            np.testing.assert_allclose(*dispatcher.run([x]).values(), wanted, rtol=1e-5)


def test_readers_of_a_tensor_without_shape_stay_on_the_host(tmp_path: Path) -> None:
    nodes = [
        node("Sigmoid", ["s"], ["p"]),
        node("NonMaxSuppression", ["b", "p", "most"], ["i"]),
        node("Cast", ["i"], ["y"], to=FLOAT),
        node("Relu", ["b"], ["r"]),
    ]
    ends = [value("b", [1, 6, 4]), value("s", [1, 2, 6])], [value("y", ["n", 3]), value("r", [1, 6, 4])]
    path = save(tmp_path / "nms.onnx", nodes, *ends, {"most": np.array([3])})
    found = rows(path)
    assert [(f[0], f[1]) for f in found] == [
        ("supported", "aten.sigmoid.default"), ("host", "onnx.NonMaxSuppression"), ("host", "onnx.Cast"),
        ("supported", "aten.relu.default"),
    ]  # fmt: skip
    assert (
        found[2][2]
        == "the shape of 'i', which it reads, is only known when the model runs; QNN has the op Cast"
    )
    assert (unread(path, load_program(path)) or "").startswith("node 2, NonMaxSuppression: opdb cannot")


@pytest.mark.parametrize(
    ("strange", "inner", "verdicts"),
    [
        (node("Strange", ["a"], ["b"], domain="acme"), [value("b", [2, 8])], "supported host supported"),
        (node("Strange", ["a"], ["b"], domain="acme"), [], "supported host host"),
        (node("EPContext", ["a"], ["b"], domain="com.microsoft", ep_cache_context=b"\xff"),
         [value("b", [2, 8])], "supported host supported"),
        (node("ImageScaler", ["a"], ["b"], scale=0.5), [value("b", [2, 8])], "supported host supported"),
        (node("RandomNormalLike", ["a"], ["b"]), [], "supported host supported"),
    ],
    ids=["custom", "custom without a shape", "context", "gone from ONNX", "random"],
)  # fmt: skip
def test_each_kind_of_unknown_node_is_a_row(tmp_path: Path, strange: Any, inner: Any, verdicts: str) -> None:
    nodes = [node("Relu", ["x"], ["a"]), strange, node("Sigmoid", ["b"], ["y"]), node("Neg", ["a"], ["z"])]
    ends = [value("x", [2, 8])], [value("y", None), value("z", [2, 8])]
    path = save(tmp_path / "kind.onnx", nodes, *ends, None, inner)
    assert [f[0] for f in rows(path)] == [*verdicts.split(), "supported"]


def test_nodes_may_be_in_any_order(tmp_path: Path) -> None:
    nodes = [node("Relu", ["a"], ["y"], name="last"), node("Neg", ["x"], ["a"], name="first")]
    path = save(tmp_path / "order.onnx", nodes, [value("x", [2])], [value("y", [2])])
    found = with_names(check_program(load_program(path), HTP), path).rows
    assert [(r.module, r.line) for r in found] == [
        ("first", "order.onnx:2: Neg"),
        ("last", "order.onnx:1: Relu"),
    ]
    module, _ = load_model(path)
    assert module(torch.tensor([1.0, -2.0])).tolist() == [0.0, 2.0]


def test_open_dimensions_get_sizes(tmp_path: Path) -> None:
    path = save(
        tmp_path / "dim.onnx",
        [node("Relu", ["x"], ["y"])],
        [value("x", ["batch", 3, None])],
        [value("y", None)],
    )
    _, (x,) = load_model(path, dims={"batch": 2, "x:2": 5})
    assert tuple(x.shape) == (2, 3, 5)
    for dims, words in (
        ({"batch": 2}, r"the shape \[batch, 3, \?\]; fix all dimensions, e.g. --dim x:2=1"),
        ({"batch": 2, "x:2": 5, "n": 1}, "--dim n=1: .* has no such dimension; it has batch"),
        ({"batch": 2, "x:2": 5, "x:1": 4}, "--dim x:1=4: it is 3 in"),
    ):
        with pytest.raises(OpdbError, match=words):
            load_model(path, dims=dims)


def test_inputs_that_are_not_numeric_tensors_are_rejected(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    for given, words in (
        (value("s", [2], TensorProto.STRING), "the input s holds strings"),
        (sequence, "the input s is a sequence"),
    ):
        path = save(
            tmp_path / "ends.onnx", [node("Relu", ["x"], ["y"])], [value("x", [2]), given], [value("y", [2])]
        )
        with pytest.raises(OpdbError, match=words):
            load_program(path)


def test_a_node_with_a_constant_beyond_int32_is_a_row(tmp_path: Path) -> None:
    for big in (2**33, -(2**31) - 1):
        path = save(
            tmp_path / "big.onnx", [node("Add", ["x", "k"], ["y"])], [value("x", [2], INT64)],
            [value("y", [2], INT64)], {"k": np.array([1, big])},
        )  # fmt: skip
        ((verdict, _, reason),) = rows(path)
        assert verdict == "rejected" and str(big) in reason and "int32" in reason
    path = save(
        tmp_path / "fits.onnx", [node("Add", ["x", "k"], ["y"])], [value("x", [2], INT64)],
        [value("y", [2], INT64)], {"k": np.array([1, 2**31 - 1])},
    )  # fmt: skip
    assert rows(path)[0][0] == "supported"
