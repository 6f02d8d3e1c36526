"""FLOPs of ONNX nodes that stay on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Row
from opdb.checks.host_work import Work, of_model
from opdb.checks.verdicts import check_program
from opdb.programs.load import load_program

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650")
STEPS, BATCH, WIDTH, HIDDEN = 6, 2, 8, 16


def rows(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Sequence[onnx.TensorProto] = (),
) -> tuple[Row, ...]:
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, str(path))
    return check_program(load_program(str(path)), HTP).rows


def value(name: str, shape: Sequence[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@pytest.mark.parametrize(("kind", "gates", "directions"), [("GRU", 3, 1), ("LSTM", 4, 2), ("RNN", 1, 1)])
def test_flops_of_recurrent_layers_count_their_products(
    tmp_path: Path, kind: str, gates: int, directions: int
) -> None:
    """Their sequence lengths are computed, and QNN has no op for that."""
    shapes = {
        "w": (directions, gates * HIDDEN, WIDTH),
        "r": (directions, gates * HIDDEN, HIDDEN),
        "b": (directions, 2 * gates * HIDDEN),
    }
    weights = [numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in shapes.items()]
    way = "bidirectional" if directions == 2 else "forward"
    node = helper.make_node(kind, ["x", "w", "r", "b", "n"], ["y"], hidden_size=HIDDEN, direction=way)
    (row,) = rows(
        tmp_path / "recurrent.onnx",
        [node],
        [value("x", (STEPS, BATCH, WIDTH)), value("n", (BATCH,), TensorProto.INT32)],
        [value("y", (STEPS, directions, BATCH, HIDDEN))],
        weights,
    )
    assert row.verdict == "host"
    assert row.flops == 2 * STEPS * BATCH * directions * gates * HIDDEN * (WIDTH + HIDDEN)


def test_a_loop_on_data_counts_one_run(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.zeros((64, 64), np.float32), "w")
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c1"]), helper.make_node("MatMul", ["s", "w"], ["s1"])],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s", (1, 64))],
        [value("c1", (), TensorProto.BOOL), value("s1", (1, 64))],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    found = rows(
        tmp_path / "loop.onnx",
        [node],
        [value("n", (), TensorProto.INT64), value("x", (1, 64))],
        [value("y", (1, 64))],
        [weight],
    )
    assert [(r.flops, r.at_least) for r in found if r.verdict == "host"] == [(2 * 64 * 64, True)]


def test_branches_on_data_count_the_one_with_more_work(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.zeros((64, 32), np.float32), "w")
    one = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["t"])], "then", [], [value("t", (1, 32))]
    )
    other = helper.make_graph(
        [helper.make_node("Slice", ["x", "b", "e", "a"], ["t"])], "else", [], [value("t", (1, 32))]
    )
    whole = {n: numpy_helper.from_array(np.array([v]), n) for n, v in (("b", 0), ("e", 32), ("a", 1))}
    found = rows(
        tmp_path / "if.onnx",
        [helper.make_node("If", ["c"], ["y"], then_branch=one, else_branch=other)],
        [value("c", (), TensorProto.BOOL), value("x", (1, 64))],
        [value("y", (1, 32))],
        [weight, *whole.values()],
    )
    assert [(r.flops, r.at_least) for r in found if r.verdict == "host"] == [(2 * 64 * 32, False)]


def scanned(steps: int) -> onnx.ModelProto:
    """A scan of ``steps`` products as a node of its own, as opdb.programs.onnx.host_shapes writes them."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["p"]), helper.make_node("Add", ["p", "xi"], ["h1"])],
        "body",
        [value("h", (1, 16)), value("xi", (1, 16))],
        [value("h1", (1, 16))],
    )
    node = helper.make_node("Scan", ["h0", "x"], ["hn"], body=body, num_scan_inputs=1)
    inputs = [value("h0", (1, 16)), value("x", (steps, 1, 16)), value("w", (16, 16))]
    graph = helper.make_graph([node], "g", inputs, [value("hn", (1, 16))])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("steps", [1, 30])
def test_a_scan_counts_each_of_its_steps(steps: int) -> None:
    assert of_model(scanned(steps), [(1, 16)]) == Work(steps * (2 * 16 * 16 + 16))
