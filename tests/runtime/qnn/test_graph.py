"""Graphs on the vendor's libraries: built, finalized, executed, compared with PyTorch."""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, ParamConfig, Quant
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.torch, pytest.mark.usefixtures("libraries")]
SOCS = ("SM8550", "SM8650", "SM8750", "SM8850")
TARGETS = [("CPU", None, None), *(("HTP", soc, p) for soc in SOCS for p in (None, "fp16"))]
#: Tolerance relative to the largest output: float32 on the CPU; float16 has 11 bits.
TOLERANCE = {"CPU": 1e-4, "HTP": 2e-3}


def oracle(graph: QnnGraph, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    data = {name: torch.from_numpy(t.data) for name, t in graph.tensors.items() if t.data is not None}
    if graph.name == "relu":
        return torch.relu(torch.from_numpy(x)).numpy()
    h = torch.nn.functional.layer_norm(torch.from_numpy(x), (768,), data["gamma"], data["beta"], 1e-6)
    return torch.nn.functional.linear(h, data["weight"], data["bias"]).numpy()


@pytest.mark.parametrize(("name", "soc", "precision"), TARGETS)
@pytest.mark.parametrize("which", ["relu_graph", "guide_graph"])
def test_results_match_pytorch(
    name: str, soc: str | None, precision: str | None, which: str, request: pytest.FixtureRequest
) -> None:
    graph = request.getfixturevalue(which)
    rng = np.random.default_rng(0)
    with Backend.open(name, soc) as backend, backend.prepare(graph, precision) as prepared:
        assert [t.name for t in prepared.inputs] == ["x"]
        for _ in range(2):
            x = rng.normal(size=prepared.inputs[0].shape).astype(np.float32)
            y = prepared.execute({"x": x})["y"]
            expected = oracle(graph, x)
            assert y.shape == expected.shape
            assert np.abs(y - expected).max() <= TOLERANCE[name] * np.abs(expected).max()


def test_omitted_inputs_and_several_outputs_are_supported() -> None:
    tensors = [
        GraphTensor("x", "f32", (4, 6), "APP_WRITE"),
        GraphTensor("beta", "f32", (6,), "STATIC", np.arange(6, dtype=np.float32)),
        GraphTensor("h", "f32", (4, 6)),
        GraphTensor("a", "f32", (4, 2), "APP_READ"),
        GraphTensor("b", "f32", (4, 4), "APP_READ"),
    ]
    ops = [
        GraphOp(
            "n",
            "LayerNorm",
            ("x", None, "beta"),
            (ParamConfig("axes", "u32", (1,), (1,)), ParamConfig("epsilon", "f32", 1e-3)),
            ("h",),
        ),
        GraphOp(
            "s",
            "Split",
            ("h",),
            (ParamConfig("axis", "u32", 1), ParamConfig("split_index", "u32", (2,), (1,))),
            ("a", "b"),
        ),
    ]
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(x), (6,), None, torch.arange(6.0), 1e-3
    ).numpy()
    with (
        Backend.open("CPU") as backend,
        backend.prepare(QnnGraph("g", {t.name: t for t in tensors}, ops)) as prepared,
    ):
        out = prepared.execute({"x": x})
    np.testing.assert_allclose(np.concatenate([out["a"], out["b"]], 1), expected, rtol=1e-4, atol=1e-5)


def test_a_quantized_graph_runs_on_htp() -> None:
    quant = Quant("SCALE_OFFSET", (0.1,), (-3,))  # real = (q - 3) * 0.1
    tensors = {
        n: GraphTensor(n, "uq8", (2, 3), t, quant=quant) for n, t in (("x", "APP_WRITE"), ("y", "APP_READ"))
    }
    graph = QnnGraph("g", tensors, [GraphOp("r", "Relu", ("x",), (), ("y",))])
    x = np.array([[0, 1, 2], [3, 4, 200]], np.uint8)
    real = torch.relu(torch.from_numpy((x.astype(np.float32) - 3) * 0.1))
    with Backend.open("HTP", "SM8650") as backend, backend.prepare(graph) as prepared:
        y = prepared.execute({"x": x})["y"]
    np.testing.assert_array_equal(y, np.rint(real.numpy() / 0.1).astype(np.uint8) + 3)


def test_static_data_and_inputs_may_be_freed_by_the_caller(guide_graph: QnnGraph) -> None:
    x = np.random.default_rng(3).normal(size=(200, 768)).astype(np.float32)
    expected = oracle(guide_graph, x)
    with Backend.open("CPU") as backend:
        prepared = backend.prepare(guide_graph)
        guide_graph.tensors.clear()
        gc.collect()
        noise = [np.full((100, 768), 7.0, np.float32) for _ in range(8)]
        y = prepared.execute({"x": np.asfortranarray(x)})["y"]
    del noise
    assert np.abs(y - expected).max() <= 1e-4 * np.abs(expected).max()


def test_a_graph_keeps_its_backend_open(relu_graph: QnnGraph) -> None:
    prepared = Backend.open("CPU").prepare(relu_graph)
    gc.collect()
    assert prepared.execute({"x": np.ones((7, 33), np.float32)})["y"].all()
    prepared.close()


def test_a_refused_node_is_an_error_with_its_log(relu_graph: QnnGraph) -> None:
    relu_graph.tensors["y"] = dataclasses.replace(relu_graph.tensors["y"], shape=(7, 34))
    with Backend.open("CPU") as backend:
        with pytest.raises(QnnError, match=r"add the node relu0 \(Relu\): 3110") as caught:
            backend.prepare(relu_graph)
        assert caught.value.name == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
        assert any(line.startswith("error: ") for line in caught.value.log)


def test_invalid_options_graphs_and_inputs_are_rejected(relu_graph: QnnGraph) -> None:
    x = np.zeros((7, 33), np.float32)
    with Backend.open("CPU") as backend:
        with pytest.raises(OpdbError, match="the CPU backend has no precision to choose"):
            backend.prepare(relu_graph, "fp16")
        with pytest.raises(OpdbError, match="'int8' is not a precision"):
            backend.prepare(relu_graph, "int8")
        broken = QnnGraph("g", relu_graph.tensors, [GraphOp("r", "Relu", ("z",), (), ("y",))])
        with pytest.raises(ConfigError, match="node r: the graph has no tensor 'z'"):
            backend.prepare(broken)
        prepared = backend.prepare(relu_graph)
        for inputs, message in (
            ({}, "this graph has the inputs x; got none"),
            ({"x": x, "z": x}, "got x, z"),
            ({"x": x.T}, r"input x: values of shape \[33, 7\] do not fill the shape \[7, 33\]"),
            ({"x": x.astype(complex)}, "values of type complex128 do not go into f32"),
        ):
            with pytest.raises(ConfigError, match=message):
                prepared.execute(inputs)
        prepared.close()
        prepared.close()
        with pytest.raises(OpdbError, match="closed; prepare it again"):
            prepared.execute({"x": x})
        left_open = backend.prepare(relu_graph)
    with pytest.raises(OpdbError, match="closed; prepare it again"):
        left_open.execute({"x": x})
    left_open.close()
