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


def test_a_loop_on_data_has_no_known_flops(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["c1"]), helper.make_node("Add", ["s", "s"], ["s1"])],
        "body",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL), value("s", (4,))],
        [value("c1", (), TensorProto.BOOL), value("s1", (4,))],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    found = rows(
        tmp_path / "loop.onnx",
        [node],
        [value("n", (), TensorProto.INT64), value("x", (4,))],
        [value("y", (4,))],
    )
    assert [(r.verdict, r.flops) for r in found if r.verdict == "host"] == [("host", None)]
