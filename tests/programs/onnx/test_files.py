"""ONNX files: the same numbers as ONNX's reference, rows with the names of the file's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from opdb.catalog.targets.target import Target
from opdb.checks.file_names import with_names
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.programs.load import load_model, load_program

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650", execution="emulator")


def model(
    nodes: list[Any],
    shape: list[Any],
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 17,
) -> Any:
    """A model from ``x`` to ``y``."""
    made = helper.make_graph(
        nodes, "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, name) for name, w in (weights or {}).items()],
    )  # fmt: skip
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.fixture
def network(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3)),
        "g": rng.standard_normal((8, 5)),
        "b": rng.standard_normal(5),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="/features/0/Conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="/features/1.Relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "g", "b"], ["l"], name="classifier"),
        helper.make_node("Acos", ["l"], ["y"], name="/features/1.Relu"),  # a name may come twice
    ]
    onnx.save(
        model(nodes, [1, 3, 8, 8], {k: v.astype(np.float32) for k, v in weights.items()}),
        tmp_path / "net.onnx",
    )
    return tmp_path / "net.onnx"


def test_the_module_matches_the_reference(network: Path) -> None:
    module, inputs = load_model(str(network))
    with torch.no_grad():
        got = module(*inputs)
    (expected,) = ReferenceEvaluator(onnx.load(network)).run(None, {"x": inputs[0].numpy()})
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_rows_have_the_names_of_the_files_nodes(network: Path) -> None:
    rows = with_names(check_program(load_program(str(network)), HTP), str(network)).rows
    assert [r.module for r in rows] == [
        "/features/0/Conv", "/features/1.Relu", "", "flat", "classifier", "/features/1.Relu",
    ]  # fmt: skip
    assert [r.line for r in rows][:3] == [
        "net.onnx:1: Conv",
        "net.onnx:2: Relu",
        "net.onnx:3: GlobalAveragePool",
    ]
    assert {r.file for r in rows} == {str(network)}
    assert rows[0].ops == ("Conv2d",)


def test_dynamo_gives_the_same_results_and_names(network: Path) -> None:
    """This is how ExecuTorch's flow exports."""
    module, inputs = load_model(str(network), dynamo=True)
    program = torch.export.export(module, inputs, strict=True)
    with torch.no_grad():
        got, wanted = program.module()(*inputs), load_model(str(network))[0](*inputs)
    torch.testing.assert_close(got, wanted, equal_nan=True)  # acos
    rows = with_names(check_program(program, HTP), str(network)).rows
    assert [r.module for r in rows][:2] == ["/features/0/Conv", "/features/1.Relu"]


def test_an_unreadable_file_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    relu = [helper.make_node("Relu", ["x"], ["y"])]
    for broken, words in (
        (
            model(relu, ["batch", 3]).SerializeToString(),
            r"the input x has the shape \[batch, 3\]; fix all dimensions",
        ),
        (
            model([helper.make_node("Relu", ["z"], ["y"])], [3, 3]).SerializeToString(),
            "model.onnx: node 1, Relu: it reads 'z', which no earlier node produces",
        ),
        (b"not a model", "cannot be read as an ONNX model"),
    ):
        path.write_bytes(broken)
        with pytest.raises(OpdbError, match=words):
            load_program(str(path))
    with pytest.raises(OpdbError, match="no such file"):
        load_program(str(tmp_path / "none.onnx"))
