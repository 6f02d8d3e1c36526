"""An ONNX file's names of inputs and outputs, from `opdb compile` to `opdb run`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from .compiling import Here

pytestmark = [pytest.mark.torch, pytest.mark.vendor]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two inputs, the first of which has a name that Python could not have, and an output called as torch's node is."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in ("mask:0", "add", "relu")]
    nodes = [
        helper.make_node("Relu", ["mask:0"], ["middle"]),
        helper.make_node("Add", ["middle", "add"], ["relu"]),
    ]
    graph = helper.make_graph(nodes, "names", ends[:2], ends[2:])
    path = tmp_path / "names.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def test_ends_have_the_names_of_the_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call, context, results = Here(capsys), tmp_path / "names.bin", tmp_path / "out.npz"
    made = call("compile", str(model), "--soc", "SM8650", "-o", str(context))
    assert made.code == 0, made.err
    assert "input  mask:0  FLOAT_32 [2, 4]" in made.out and "output relu" in made.out
    mask, add = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    np.savez(tmp_path / "given.npz", **{"mask:0": mask, "add": add})
    ran = call("run", str(context), "--inputs", str(tmp_path / "given.npz"), "--outputs", str(results))
    assert ran.code == 0, ran.err
    np.testing.assert_allclose(np.load(results)["relu"], np.maximum(mask, 0) + add, atol=2e-3)
