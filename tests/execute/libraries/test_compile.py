"""Compilation and execution in the child: numbers, stages, and a library that is killed, crashes or hangs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import OpConfig, ParamConfig, Quant, TensorConfig
from opdb.execute.compile.build import compile_to_file
from opdb.execute.compile.model import config_graph
from opdb.execute.libraries.client import VendorWorker
from opdb.runtime.qnn.graph import GraphOptions

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.usefixtures("libraries")]


def chain(op: str, length: int, shape: tuple[int, ...] = (1, 64, 64, 32), name: str = "chain") -> QnnGraph:
    tensors = {"h0": GraphTensor("h0", "f32", shape, "APP_WRITE")}
    for i in range(1, length + 1):
        tensors[f"h{i}"] = GraphTensor(f"h{i}", "f32", shape, "APP_READ" if i == length else "NATIVE")
    ops = [GraphOp(f"n{i}", op, (f"h{i - 1}",), (), (f"h{i}",)) for i in range(1, length + 1)]
    return QnnGraph(name, tensors, ops)


#: Seconds of finalization on HTP.
LONG = chain("Softmax", 400)
SMALL = chain("Relu", 1, (2, 3), "small")


def signalled(
    worker: VendorWorker, number: int, seen: list[tuple[str, str]]
) -> Callable[[str, str, float], None]:
    """A progress callback that signals the child from another thread, shortly after finalization begins."""

    def progress(stage: str, graph: str, so_far: float) -> None:
        seen.append((stage, graph))
        if (stage, graph, so_far) == ("finalize", "chain", 0):
            pid = worker.pid
            assert pid is not None
            threading.Timer(0.1, os.kill, (pid, number)).start()

    return progress


@pytest.mark.parametrize(("backend", "soc"), [("CPU", None), ("HTP", "SM8650")])
def test_a_compiled_file_can_be_executed(backend: str, soc: str | None, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(2, 3)).astype(np.float32)
    seen: list[tuple[str, str]] = []
    options = GraphOptions(precision="fp16" if soc else None)
    graphs = [SMALL, chain("Sigmoid", 2, (2, 3), "other")]
    with VendorWorker(backend, soc) as worker:
        made = worker.compile(
            graphs, tmp_path / "f", options, {"who": "a test"}, lambda *at: seen.append(at[:2])
        )
    assert (made.stage, made.verdict, made.code) == ("done", "yes", 0)
    stages = [("validate", g.name) for g in graphs]
    stages += [(s, g.name) for g in graphs for s in ("build", "finalize")] + [("save", "")]
    assert list(dict.fromkeys(seen)) == stages == [(s, g) for s, g, _ in made.seconds]
    assert all(t > 0 for _, _, t in made.seconds)
    with VendorWorker(backend, soc) as worker:
        with pytest.raises(OpdbError, match="no context is loaded"):
            worker.execute("small", {"h0": x})
        loaded = worker.load(tmp_path / "f")
        names = {n: (i[0].name, o[0].name) for n, (i, o) in loaded.graphs.items()}
        assert names == {"small": ("h0", "h1"), "other": ("h0", "h2")}
        done = worker.execute("small", {"h0": x}, repeat=3)
        assert (done.stage, len(done.seconds)) == ("done", 3)
        np.testing.assert_allclose(done.outputs["h1"], np.maximum(x, 0), rtol=2e-3)
        done = worker.execute("other", {"h0": x}, profile="basic", reports=("text",))
        once = 1 / (1 + np.exp(-x))
        np.testing.assert_allclose(done.outputs["h2"], 1 / (1 + np.exp(-once)), rtol=5e-3)
        assert "execute other" in done.reports["text"]
        with pytest.raises(OpdbError, match="this graph has the inputs h0; got none"):
            worker.execute("small", {})
        with pytest.raises(OpdbError, match="no graph 'none'"):
            worker.execute("none", {"h0": x})


def test_a_kill_during_finalization_is_a_crash(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    with VendorWorker("HTP", "SM8650") as worker:
        result = worker.compile(
            [SMALL, LONG], tmp_path / "f", None, None, signalled(worker, signal.SIGKILL, seen)
        )
        assert (result.stage, result.graph) == ("finalize", "chain")
        assert (result.verdict, result.code, result.code_name) == ("crashed", 9, "SIGKILL")
        assert seen[-1] == ("finalize", "chain")
        assert os.listdir(tmp_path) == []
        again = worker.compile([SMALL], tmp_path / "f")
        assert again.stage == "done"
    assert os.listdir(tmp_path) == ["f"]


def test_a_stop_during_finalization_is_a_hang(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    with VendorWorker("HTP", "SM8650", timeout=2) as worker:
        worker.info()
        pid = worker.pid
        begun = time.monotonic()
        result = worker.compile([LONG], tmp_path / "f", None, None, signalled(worker, signal.SIGSTOP, seen))
        assert 1.9 < time.monotonic() - begun < 60
        assert (result.stage, result.graph) == ("finalize", "chain")
        assert (result.verdict, result.code, result.code_name) == ("hung", 0, "")
        assert seen.count(("finalize", "chain")) >= 2  # reported again while it continues
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        assert worker.compile([SMALL], tmp_path / "f").stage == "done"


def test_a_crash_in_the_htp_validator_is_reported(tmp_path: Path) -> None:
    """The validator of 2.47 crashes on a b with scales along an axis (HTP-0052)."""
    affine = Quant("SCALE_OFFSET", (0.1,), (0,))
    along = Quant("AXIS_SCALE_OFFSET", (0.1,) * 4, (0,) * 4, axis=1)
    b = TensorConfig("b", "sq8", (3, 4), "STATIC", np.ones((3, 4), np.int8), along)
    a, y = TensorConfig("a", "uq8", (2, 3), quant=affine), TensorConfig("y", "uq8", (2, 4), quant=affine)
    graph = config_graph(OpConfig("MatMul", (a, b), (), (y,)), "crash")
    made = compile_to_file([graph], tmp_path / "f", "HTP", "SM8650")
    result = made.result
    assert (result.stage, result.graph, result.verdict) == ("validate", "crash", "crashed")
    assert (result.code, result.code_name) == (signal.SIGSEGV, "SIGSEGV")
    assert (made.size, os.listdir(tmp_path)) == (0, [])


def test_a_kill_during_execution_is_a_crash(tmp_path: Path) -> None:
    x = np.zeros((1, 64, 64, 32), np.float32)
    with VendorWorker("CPU") as worker:
        assert worker.compile([LONG], tmp_path / "f").stage == "done"
        worker.load(tmp_path / "f")

        def kill(stage: str, graph: str, so_far: float) -> None:
            assert (stage, graph) == ("execute", "chain")
            assert worker.pid is not None
            threading.Timer(0.1, os.kill, (worker.pid, signal.SIGKILL)).start()

        result = worker.execute("chain", {"h0": x}, repeat=1000, progress=kill)
        assert (result.stage, result.verdict, result.code_name) == ("execute", "crashed", "SIGKILL")
        with pytest.raises(OpdbError, match="load one first"):
            worker.execute("chain", {"h0": x})
        assert worker.load(tmp_path / "f").stage == "done"


def test_refused_graphs_name_the_stage_and_node(tmp_path: Path) -> None:
    params = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (1,), (1,)))
    x, y = (GraphTensor(n, "f32", (4, 64), t) for n, t in (("x", "APP_WRITE"), ("y", "APP_READ")))
    beta = GraphTensor("beta", "f32", (64,), "STATIC", np.zeros(64, np.float32))
    node = GraphOp("norm", "LayerNorm", ("x", None, "beta"), params, ("y",))
    graph = QnnGraph("g", {"x": x, "beta": beta, "y": y}, [node])
    made = compile_to_file([SMALL, graph], tmp_path / "f", "HTP", "SM8650").result
    assert (made.stage, made.graph, made.verdict, made.code) == ("finalize", "g", "no", 1002)
    assert any("could not create op" in line for line in made.log)
    made = compile_to_file([chain("Relo", 1)], tmp_path / "f", "CPU").result
    assert (made.stage, made.graph, made.node, made.verdict, made.code) == (
        "validate",
        "chain",
        "n1",
        "no",
        4005,
    )
    assert os.listdir(tmp_path) == []


def test_mistakes_are_errors_without_a_new_child(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    with VendorWorker("CPU") as worker:
        worker.info()
        pid = worker.pid
        with pytest.raises(OpdbError, match="the CPU backend has no optimization to choose"):
            worker.compile([SMALL], tmp_path / "f", GraphOptions(optimization=3))
        with pytest.raises(OpdbError, match="has a graph 'small' already"):
            worker.compile([SMALL, SMALL], tmp_path / "f")
        with pytest.raises(OpdbError, match="not a context file of opdb's"):
            worker.load(tmp_path / "file")
        with pytest.raises(OpdbError, match="cannot read"):
            worker.load(tmp_path / "none")
        with pytest.raises(OpdbError, match="cannot write"):
            worker.compile([SMALL], tmp_path / "file" / "f")
        assert worker.pid == pid
    with pytest.raises(OpdbError, match="this is a folder"):
        compile_to_file([SMALL], tmp_path, "CPU")
    with pytest.raises(OpdbError, match="cannot write"):
        compile_to_file([SMALL], tmp_path / "file" / "f", "CPU")
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("file", "kept")]
