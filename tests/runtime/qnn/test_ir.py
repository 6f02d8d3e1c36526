"""Graphs as DLC files, and refusals of libQnnIr."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.ir import write_dlc

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]


def entries(path: Path) -> dict[str, bytes]:
    """The files of a DLC; the library writes no checksums for them."""
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            info.CRC = None  # type: ignore[assignment]  # not checked then
        return {info.filename: archive.read(info) for info in archive.infolist()}


def test_a_dlc_contains_the_graph(tmp_path: Path, guide_graph: QnnGraph) -> None:
    path = tmp_path / "new" / "guide.dlc"
    write_dlc(guide_graph, path)
    found = entries(path)
    model, data = found["model"], found["model.params.bin"]
    words = [*guide_graph.tensors, *(w for op in guide_graph.ops for w in (op.name, op.op, op.package))]
    assert all(word.encode() in model for word in words)
    for tensor in guide_graph.tensors.values():
        assert tensor.type != "STATIC" or tensor.data.tobytes() in data
    assert os.listdir(path.parent) == ["guide.dlc"]
    first = guide_graph.tensors["gamma"].data
    changed = np.ascontiguousarray(first + 1)
    guide_graph.tensors["gamma"] = GraphTensor("gamma", "f32", (768,), "STATIC", changed)
    write_dlc(guide_graph, path)
    again = entries(path)["model.params.bin"]
    assert changed.tobytes() in again
    assert first.tobytes() not in again


def test_a_refused_graph_leaves_no_file(tmp_path: Path, relu_graph: QnnGraph) -> None:
    relu_graph.ops.append(GraphOp("odd", "Relu", ("x",), (), ("y",)))
    relu_graph.tensors["y"] = GraphTensor("y", "f32", (7, 33, 1), "APP_READ")
    with pytest.raises(QnnError, match=r"validate the node relu0 \(Relu\): 3110"):
        write_dlc(relu_graph, tmp_path / "g.dlc")
    relu_graph.ops[:] = [GraphOp("odd", "Relo", ("x",), (), ("y",))]
    with pytest.raises(QnnError, match=r"validate the node odd \(Relo\): 4005"):
        write_dlc(relu_graph, tmp_path / "g.dlc")
    assert os.listdir(tmp_path) == []


def test_unwritable_paths_are_rejected(tmp_path: Path, relu_graph: QnnGraph) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in ("file/g.dlc", "folder"):
        with pytest.raises(OpdbError, match=f"{path}: cannot write"):
            write_dlc(relu_graph, tmp_path / path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def test_unsupported_operations_of_libqnnir_are_errors(
    tmp_path: Path, relu_graph: QnnGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the library would write here without a path
    options = GraphOptions(dlc=str(tmp_path / "g.dlc"))
    with Backend.open("IR") as backend:
        good = OpConfig("Relu", (TensorConfig("x", "f32", (2, 3)),), (), (TensorConfig("y", "f32", (2, 3)),))
        assert backend.validate(good).verdict == "accept"
        assert backend.validate(OpConfig("Relu")).code == 3110
        with pytest.raises(QnnError, match="list its ops: 1000"):
            backend.supported_operations()
        with pytest.raises(OpdbError, match=r"ir\.write_dlc does"):
            backend.prepare(relu_graph)
        with backend.create_context() as context:
            graph = context.add_graph(relu_graph, options)
            with pytest.raises(
                OpdbError, match="the IR backend executes nothing; prepare the graph on CPU or HTP"
            ):
                graph.execute({"x": np.zeros((7, 33), np.float32)})
            with pytest.raises(QnnError, match="1000 QNN_COMMON_ERROR_NOT_SUPPORTED"):
                context.binary()
    with pytest.raises(OpdbError, match="the IR backend has no precision to choose"):
        GraphOptions(precision="fp16", dlc="g.dlc").check("IR")
    with pytest.raises(OpdbError, match="the CPU backend has no dlc to choose"):
        GraphOptions(dlc="g.dlc").check("CPU")
    assert os.listdir(tmp_path) == ["g.dlc"]
