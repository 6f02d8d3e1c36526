"""Threads that share a backend, a close during their work, and thousands of objects without a leak."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.runtime.qnn import handles
from opdb.runtime.qnn.backend import Backend

pytestmark = [pytest.mark.native, pytest.mark.vendor, pytest.mark.usefixtures("libraries"), pytest.mark.slow]
TARGETS = [("CPU", None), ("HTP", "SM8650")]
THREADS = 4
BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
#: AddressSanitizer delays the release of freed memory, so resident memory is meaningless there.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
MIB = 1024


def add(name: str, constant: float) -> QnnGraph:
    """y = relu(x + constant) on [4, 8]."""
    tensors = [
        GraphTensor("x", "f32", (4, 8), "APP_WRITE"),
        GraphTensor("c", "f32", (8,), "STATIC", np.full(8, constant, np.float32)),
        GraphTensor("h", "f32", (4, 8)),
        GraphTensor("y", "f32", (4, 8), "APP_READ"),
    ]
    ops = [
        GraphOp("add", "ElementWiseAdd", ("x", "c"), (), ("h",)),
        GraphOp("relu", "Relu", ("h",), (), ("y",)),
    ]
    return QnnGraph(name, {t.name: t for t in tensors}, ops)


def in_threads(work: Callable[[int], None]) -> None:
    """Runs ``work(0)`` to ``work(3)`` in parallel; reraises the first exception."""
    faults: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=guarded, args=(i,), daemon=True) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if faults:
        raise faults[0]


@pytest.fixture(params=TARGETS, ids=lambda target: target[0])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    name, soc = request.param
    with Backend.open(name, soc, log_level="warning") as backend:
        yield backend


def test_threads_share_a_backend(backend: Backend) -> None:
    """Each thread makes contexts with two graphs that have its constants, and checks every number."""

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(4):
            with backend.create_context() as context:
                constants = rng.integers(-8, 8, 2)
                graphs = [context.add_graph(add(f"g{i}", c)) for i, c in enumerate(constants)]
                for graph, constant in zip(graphs, constants, strict=True):
                    bound = graph.bind({"x": np.zeros((4, 8), np.float32)})
                    for _ in range(5):
                        x = rng.integers(-16, 16, (4, 8)).astype(
                            np.float32
                        )  # exact in float16, as HTP computes
                        expected = np.maximum(x + constant, 0)
                        np.testing.assert_allclose(
                            context.graph(graph.name).execute({"x": x})["y"], expected, atol=0.02
                        )
                        bound.inputs["x"][...] = x
                        np.testing.assert_allclose(bound.run()["y"], expected, atol=0.02)

    in_threads(work)


def test_threads_share_a_graph(backend: Backend) -> None:
    with backend.prepare(add("g", 1)) as graph:

        def work(number: int) -> None:
            bound = graph.bind({"x": np.full((4, 8), number, np.float32)})
            for i in range(50):
                value = 10 * number + i % 10
                out = graph.execute({"x": np.full((4, 8), value, np.float32)})["y"]
                np.testing.assert_allclose(out, value + 1, atol=0.02)
                np.testing.assert_allclose(bound.run()["y"], number + 1, atol=0.02)

        in_threads(work)


@pytest.mark.parametrize("what", ["backend", "context", "graph"])
@pytest.mark.parametrize(("name", "soc"), TARGETS, ids=["CPU", "HTP"])
def test_a_close_during_execution_is_safe(name: str, soc: str | None, what: str) -> None:
    """The other threads get OpdbError at once or with their next call."""
    with Backend.open(name, soc, log_level="warning") as backend:
        context = backend.create_context()
        graph = context.add_graph(add("g", 1))
        started = threading.Barrier(THREADS)
        refused: list[str] = []

        def work(number: int) -> None:
            bound = graph.bind({"x": np.full((4, 8), number, np.float32)})
            bound.run()
            started.wait(30)
            if number == 0:
                time.sleep(0.05)
                {"backend": backend, "context": context, "graph": graph}[what].close()
            try:
                while True:
                    np.testing.assert_allclose(bound.run()["y"], number + 1, atol=0.02)
                    out = graph.execute(bound.inputs)["y"]
                    np.testing.assert_allclose(out, number + 1, atol=0.02)
                    if number == 1 and what != "graph":
                        context.graph("g").execute(bound.inputs)
            except OpdbError as error:
                refused.append(str(error))

        in_threads(work)
    assert len(refused) == THREADS
    assert all("closed" in message for message in refused)


@pytest.mark.parametrize("delay", [0.0, 0.005, 0.02])
def test_a_close_during_graph_building_is_safe(delay: float) -> None:
    """Contexts and graphs made during the close of their backend are complete or refused."""
    backend = Backend.open("CPU", log_level="error")
    started = threading.Barrier(THREADS)
    refused: list[str] = []

    def work(number: int) -> None:
        started.wait(30)
        if number == 0:
            time.sleep(delay)
            backend.close()
        try:
            while True:
                out = backend.prepare(add("g", number)).execute({"x": np.zeros((4, 8), np.float32)})["y"]
                np.testing.assert_array_equal(out, number)
        except OpdbError as error:
            refused.append(str(error))

    in_threads(work)
    assert len(refused) == THREADS
    assert all("closed" in message for message in refused)


def resident() -> float:
    """Resident memory in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


def grown(step: Callable[[], Any], n: int) -> float:
    """Growth of the resident memory in KiB over ``n`` calls, after some to warm up."""
    for _ in range(n // 5):
        step()
    gc.collect()
    before = resident()
    for _ in range(n):
        step()
    gc.collect()
    return resident() - before


@pytest.mark.breadth
def test_a_thousand_objects_of_each_kind_do_not_leak() -> None:
    """1,000 backends (of at most 16 at once), contexts, graphs and executions on the CPU."""
    x = np.zeros((4, 8), np.float32)
    growth = {"backend": grown(lambda: Backend.open("CPU", log_level="error").close(), 1000)}
    with Backend.open("CPU", log_level="error") as backend:
        growth["context"] = grown(lambda: backend.create_context().close(), 1000)
        growth["dropped context"] = grown(backend.create_context, 1000)
        with backend.create_context() as context:
            context.add_graph(add("g", 1))
            growth["retrieved graph"] = grown(lambda: context.graph("g"), 1000)
        with backend.prepare(add("g", 1)) as graph:
            growth["execution"] = grown(lambda: graph.bind({"x": x}), 1000)
            growth["run"] = grown(graph.bind({"x": x}).run, 5000)
            growth["execute"] = grown(lambda: graph.execute({"x": x}), 5000)
        assert not backend._handle._children[0]._children, "handles of closed objects are forgotten"
    assert not handles.dropped
    if not SANITIZED:
        assert max(growth.values()) < MIB, growth


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "soc", "bound"), [("CPU", None, 1 * MIB), ("HTP", "SM8650", 8 * MIB)])
def test_prepared_graphs_do_not_leak(name: str, soc: str | None, bound: int) -> None:
    """1,000 graphs, closed, dropped and in cycles; HTP's heap levels out some MiB above its first use (so does C's)."""
    x = np.zeros((4, 8), np.float32)
    with Backend.open(name, soc, log_level="error") as backend:

        def closed() -> None:
            with backend.prepare(add("g", 1)) as graph:
                graph.execute({"x": x})

        def cyclic() -> None:
            cycle: list[Any] = [backend.prepare(add("g", 1))]
            cycle.append(cycle)

        growth = {
            "closed": grown(closed, 1000),
            "dropped": grown(lambda: backend.prepare(add("g", 1)), 1000),
            "cyclic": grown(cyclic, 1000),
        }
    if not SANITIZED:
        assert max(growth.values()) < bound, growth


@pytest.mark.sweep
def test_a_short_soak_run_passes() -> None:
    """Runs 20 seconds of benchmarks/soak.py; the long one is run by hand."""
    command = [sys.executable, str(BENCHMARKS / "soak.py"), "--minutes", "0.33", "--threads", str(THREADS)]
    done = subprocess.run(
        [*command, "--mebibytes", "1e6" if SANITIZED else "32"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    for name in ("CPU", "HTP"):
        assert int(re.findall(rf"{name}: .*?(\d+) executions", done.stderr)[0]) > 100


@pytest.mark.sweep
@pytest.mark.skipif(SANITIZED, reason="the sanitizer's time is no measure")
def test_execution_overhead_is_small() -> None:
    """100,000 executions: less than 20 microseconds over the same loop in C, memory growth below 1 MiB."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "qnn_execute.py"), "--htp-executions", "2000"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
