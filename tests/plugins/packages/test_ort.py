"""Custom-op libraries in the real ONNX Runtime: numbers, shapes, reasons; they need no header from it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.packages import ort_package
from opdb.spec.catalog import Catalog

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")
pytestmark = [pytest.mark.native, pytest.mark.slow]
OPS = ["Concat", "DequantizeAdd", "Pad", "ReduceSum", "Softmax", "Split", "TopK"]
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def library(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, _ = ort_package.write(catalog, OPS, "mine", tmp_path_factory.mktemp("ort"), domain="com.example")
    return ort_package.build(folder, "mine")


def session(
    library: Path,
    op: str,
    inputs: dict[str, tuple[Any, list[Any]]],
    outputs: dict[str, Any],
    names: list[str] | None = None,
    **attributes: Any,
) -> Any:
    """One node; ``inputs`` by name: ONNX's type and shape; ``outputs``: types."""
    helper = onnx.helper
    node = helper.make_node(op, names or list(inputs), list(outputs), domain="com.example", **attributes)
    graph = helper.make_graph(
        [node],
        "graph",
        [helper.make_tensor_value_info(n, *t) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.register_custom_ops_library(str(library))
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


FLOAT, INT8, UINT32 = 1, 3, 12


def test_the_library_exports_only_its_entry(library: Path) -> None:
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["RegisterCustomOps"]


def test_scalar_attributes_and_symbolic_dims_are_supported(library: Path) -> None:
    made = session(
        library,
        "DequantizeAdd",
        {"x": (INT8, ["n", 3, 4]), "bias": (FLOAT, [4])},
        {"y": FLOAT},
        scale=0.5,
    )
    bias = np.arange(4, dtype=np.float32)
    for rows in (1, 5):
        x = np.arange(rows * 12, dtype=np.int8).reshape(rows, 3, 4)
        assert np.array_equal(made.run(None, {"x": x, "bias": bias})[0], x * np.float32(0.5) + bias)


def test_lists_two_outputs_and_variadic_slots_are_supported(library: Path) -> None:
    x = {"x": (FLOAT, [2, 3, 4])}
    summed = session(library, "ReduceSum", x, {"y": FLOAT}, axes=[0, 2], keep_dims=1)
    assert summed.get_outputs()[0].shape == [1, 3, 1]
    assert np.allclose(summed.run(None, {"x": X})[0], X.sum((0, 2), keepdims=True))
    top = session(library, "TopK", x, {"values": FLOAT, "places": UINT32}, k=2)
    values, places = top.run(None, {"x": X})
    assert np.array_equal(values, -np.sort(-X, -1)[..., :2]) and values.shape == (2, 3, 2)
    assert np.array_equal(np.take_along_axis(X, places.astype(int), -1), values)
    joined = session(library, "Concat", x, {"y": FLOAT}, ["x", "x", "x"], axis=1)
    assert joined.get_outputs()[0].shape == [2, 9, 4]
    assert np.array_equal(joined.run(None, {"x": X})[0], np.concatenate([X] * 3, 1))
    parts = session(library, "Split", x, {"a": FLOAT, "b": FLOAT}, axis=2, split_index=[1])
    assert [p.tolist() for p in parts.run(None, {"x": X})] == [X[..., :1].tolist(), X[..., 1:].tolist()]


def test_lists_of_rows_are_supported(library: Path) -> None:
    made = session(
        library,
        "Pad",
        {"x": (FLOAT, [2, 3, 4])},
        {"y": FLOAT},
        scheme=0,
        pad_amount=[0, 0, 1, 2, 0, 1],
        pad_constant_value=0,
    )
    assert made.get_outputs()[0].shape == [2, 6, 5]
    assert np.array_equal(made.run(None, {"x": X})[0], np.pad(X, [(0, 0), (1, 2), (0, 1)]))


def test_a_refusal_names_the_rule(library: Path) -> None:
    made = session(library, "Softmax", {"x": (FLOAT, [2, 3, 4])}, {"y": FLOAT}, axis=7)
    with pytest.raises(Exception, match=r"Softmax\.C2: axis must be in \[0, the rank of x\); got axis = 7"):
        made.run(None, {"x": X})


def test_unsupported_libraries_are_rejected(catalog: Catalog, tmp_path: Path) -> None:
    for arguments, message in (
        ((["Relu"], "a-b", "com.example"), "not a valid library name"),
        ((["Relu"], "mine", "com example"), "not a valid ONNX domain"),
        ((["Relu", "Reshape"], "mine", "com.example"), "Reshape: the shape of y does not follow"),
        ((["Quantize"], "mine", "com.example"), "Quantize: its kernel takes quantized types only"),
    ):
        ops, name, domain = arguments
        with pytest.raises(OpdbError, match=message):
            ort_package.write(catalog, ops, name, tmp_path, domain=domain)
