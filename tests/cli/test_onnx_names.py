"""An ONNX file's names of inputs and outputs, from `opdb compile` to `opdb run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from .compiling import Here

pytestmark = [pytest.mark.torch, pytest.mark.vendor, pytest.mark.slow]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two inputs, the first with a name invalid in Python, and an output with the name torch gives its node."""
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 4]) for n in ("mask:0", "add", "relu")]
    nodes = [
        helper.make_node("Relu", ["mask:0"], ["middle"]),
        helper.make_node("Add", ["middle", "add"], ["relu"]),
    ]
    graph = helper.make_graph(nodes, "names", ends[:2], ends[2:])
    path = tmp_path / "names.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def test_inputs_and_outputs_keep_the_files_names(
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


def ran(call: Here, model: Path, given: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Compiles a file, runs it on inputs, and returns the outputs."""
    folder = model.parent
    made = call("compile", str(model), "--soc", "SM8650", "-o", str(folder / "model.bin"))
    assert made.code == 0, made.err
    np.savez(folder / "given.npz", **given)
    outputs = folder / "out.npz"
    done = call(
        "run", str(folder / "model.bin"), "--inputs", str(folder / "given.npz"), "--outputs", str(outputs)
    )
    assert done.code == 0, done.err
    return dict(np.load(outputs))


def saved(
    path: Path, nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any]
) -> Path:
    held = [numpy_helper.from_array(w, n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "ends", inputs, outputs, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def test_constants_inputs_and_copies_can_be_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outputs have the file's order and data types, as in ONNX Runtime."""
    value = helper.make_tensor_value_info
    node = helper.make_node
    floats, wide = TensorProto.FLOAT, TensorProto.INT64
    nodes = [
        node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["again"]), node("Identity", ["n"], ["m"]),
        node("Identity", ["x"], ["z"]), node("Add", ["n", "two"], ["more"]),
    ]  # fmt: skip
    outputs = [
        value("m", wide, [3]), value("c", floats, [2]), value("y", floats, [2, 2]), value("again", floats, [2, 2]),
        value("more", wide, [3]), value("z", floats, [2, 2]), value("k", wide, [2]),
    ]  # fmt: skip
    weights = {"c": np.array([1, -2.5], np.float32), "two": np.array([2]), "k": np.array([7, -8])}
    inputs = [value("x", floats, [2, 2]), value("n", wide, [3])]
    path = saved(tmp_path / "ends.onnx", nodes, inputs, outputs, weights)
    given = {"x": np.array([[-1.5, 2], [0.5, -4]], np.float32), "n": np.array([5, -6, 2**30])}
    got = ran(Here(capsys), path, given)
    wanted = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, given)
    assert list(got) == [o.name for o in outputs]
    for o, want in zip(outputs, wanted, strict=True):
        assert got[o.name].dtype == want.dtype
        np.testing.assert_allclose(got[o.name], want, atol=2e-3)


def test_an_input_that_is_an_output_has_two_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    path = saved(tmp_path / "through.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [y, x], {})
    got = ran(Here(capsys), path, {"x": np.array([-1, 2], np.float32)})
    assert list(got) == ["y", "x_out"]
    np.testing.assert_allclose(got["y"], [0, 2], atol=2e-3)
    np.testing.assert_allclose(got["x_out"], [-1, 2], atol=2e-3)


def test_an_open_dimension_needs_a_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 3]) for n in "xy")
    path, call = (
        saved(tmp_path / "open.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [y], {}),
        Here(capsys),
    )
    refused = call("check", str(path), "--soc", "SM8650")
    assert refused.code == 2 and "--dim batch=1" in refused.err
    assert call("check", str(path), "--soc", "SM8650", "--dim", "batch=2").code == 0
    made = call("compile", str(path), "--soc", "SM8650", "--dim", "batch=2", "-o", str(tmp_path / "open.bin"))
    assert made.code == 0 and "input  x  FLOAT_32 [2, 3]" in made.out
    wrong = call("check", str(path), "--soc", "SM8650", "--dim", "batch")
    assert wrong.code == 2 and "give NAME=SIZE" in wrong.err


def test_a_model_with_cpu_nodes_gets_no_context(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """compile prints the same rows as check, with the file's names; for ExecuTorch they are in a message."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 3]) for n in "xy")
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Det", ["a"], ["d"]),
        helper.make_node("Add", ["a", "d"], ["y"]),
    ]
    path, call = saved(tmp_path / "det.onnx", nodes, [x], [y], {}), Here(capsys)
    checked = call("check", str(path), "--soc", "SM8650")
    made = call("compile", str(path), "--soc", "SM8650", "-o", str(tmp_path / "det.bin"))
    assert checked.code == made.code == 1
    assert (
        "onnx.Det" in checked.out and "at det.onnx:2: Det" in checked.out and made.out.endswith(checked.out)
    )
    assert not (tmp_path / "det.bin").exists()
    refused = call("compile", str(path), "--soc", "SM8650", "-o", str(tmp_path / "det.pte"))
    assert refused.code == 2 and "ExecuTorch cannot run node 2, Det: opdb cannot express it" in refused.err


def test_an_executorch_program_keeps_the_names(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call, program, results = Here(capsys), tmp_path / "names.pte", tmp_path / "out.npz"
    assert call("compile", str(model), "--soc", "SM8650", "-o", str(program)).code == 0
    mask, add = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), np.ones((2, 4), np.float32)
    np.savez(tmp_path / "given.npz", **{"mask:0": mask, "add": add})
    done = call("run", str(program), "--inputs", str(tmp_path / "given.npz"), "--outputs", str(results))
    assert done.code == 0, done.err
    np.testing.assert_allclose(np.load(results)["relu"], np.maximum(mask, 0) + add, atol=2e-3)
