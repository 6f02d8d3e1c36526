"""Creates, executes and frees on QNN's real libraries from several threads at once, for minutes.

    benchmarks/soak.py --minutes 10 --threads 4

CPU and HTP each run in a child process, where a crash is a failure.  The threads share one backend.  Each makes
contexts with one to three graphs of random kinds and shapes, retrieves graphs by name, executes them both ways
with random data, compares with numpy, writes and loads context binaries, and releases by ``close``, by dropping
or by leaving it to the garbage collector.  Now and then a thread opens a separate backend, or closes the shared one
while the others use it; they must get OpdbError and nothing else.

Prints the counts; exits 1 on a crash, a wrong number, another exception, a hanging thread, or if the
resident memory grew by more than --mebibytes after the first fifth of the time.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import Graph, Interface

BACKENDS = {"CPU": None, "HTP": "SM8650"}
HANG_SECONDS = 60
Array = np.ndarray[Any, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mebibytes", type=float, default=32)
    parser.add_argument("--only", choices=BACKENDS, help="this backend alone")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return Soak(options).run()
    names = [options.only] if options.only else list(BACKENDS)
    command = [sys.executable, __file__, *sys.argv[1:], "--child"]
    # HTP's output while it prepares graphs is discarded; the counts are on stderr.
    children = {
        n: subprocess.Popen([*command, *([] if options.only else ["--only", n])], stdout=subprocess.DEVNULL)
        for n in names
    }
    codes = {name: child.wait() for name, child in children.items()}
    for name, code in codes.items():
        print(f"{name}: {'passed' if code == 0 else f'FAILED, exit code {code}'}", file=sys.stderr)
    return int(any(codes.values()))


class Soak:
    """One process: one library, several threads."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.name: str = options.only
        self.threads: int = options.threads
        self.seed: int = options.seed
        self.seconds = options.minutes * 60
        self.bound_kib = options.mebibytes * 1024
        self.counts: Counter[str] = Counter()
        self.counts_lock = threading.Lock()
        self.faults: list[str] = []
        self.backend = self.open()
        self.renewing = threading.Lock()

    def open(self) -> Backend:
        return Backend.open(self.name, BACKENDS[self.name], log_level="warning")

    def run(self) -> int:
        faulthandler.enable()
        end = time.monotonic() + self.seconds
        threads = [
            threading.Thread(target=self.work, args=(i, end), daemon=True) for i in range(self.threads)
        ]
        for thread in threads:
            thread.start()
        time.sleep(self.seconds / 5)
        early = resident()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()) + HANG_SECONDS)
        hanging = [thread.name for thread in threads if thread.is_alive()]
        if hanging:
            faulthandler.dump_traceback()
            self.faults.append(f"{', '.join(hanging)} did not end")
            os._exit(1)
        self.backend.close()
        gc.collect()
        late = resident()
        if late - early > self.bound_kib:
            self.faults.append(f"resident memory grew from {early} to {late} KiB")
        counts = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()))
        print(f"{self.name}: {counts}; resident {early} -> {late} KiB", file=sys.stderr)
        for fault in self.faults:
            print(f"{self.name}: {fault}", file=sys.stderr)
        return int(bool(self.faults))

    def work(self, number: int, end: float) -> None:
        rng = random.Random(self.seed * 1000 + number)
        while time.monotonic() < end and not self.faults:
            backend, counts = self.backend, Counter[str]()
            try:
                self.step(rng, backend, counts)
            except QnnError as error:
                self.faults.append(f"thread {number}: {error}")
            except OpdbError as error:
                if backend.closed and "closed" in str(error):
                    counts["refused after close"] += 1
                else:
                    self.faults.append(f"thread {number}: {error}")
            except BaseException:
                self.faults.append(f"thread {number}: {traceback.format_exc()}")
            with self.counts_lock:
                self.counts += counts

    def step(self, rng: random.Random, backend: Backend, counts: Counter[str]) -> None:
        chance = rng.random()
        if chance < 0.005:
            self.renew(backend, counts)
        elif chance < 0.02:
            with self.open() as own:
                use(rng, own, counts)
            counts["backends"] += 1
        else:
            use(rng, backend, counts)
        if rng.random() < 0.02:
            gc.collect()

    def renew(self, backend: Backend, counts: Counter[str]) -> None:
        """Closes the shared backend while the others use it."""
        with self.renewing:
            if self.backend is backend:
                self.backend = self.open()
                backend.close()
                counts["shared backends closed"] += 1


def use(rng: random.Random, backend: Backend, counts: Counter[str]) -> None:
    """Creates, uses and releases one context."""
    context = backend.create_context()
    counts["contexts"] += 1
    kinds = [rng.choice(KINDS)(rng, f"g{i}") for i in range(rng.randint(1, 3))]
    graphs = [context.add_graph(graph) for graph, _ in kinds]
    counts["graphs"] += len(graphs)
    for graph, (_, oracle) in zip(graphs, kinds, strict=True):
        execute(rng, rng.choice((graph, context.graph(graph.name))), oracle, counts)
    if rng.random() < 0.1:
        reload(rng, context, dict(zip((g.name for g in graphs), kinds, strict=True)), counts)
    match rng.randrange(4):
        case 0:
            context.close()
        case 1:
            graphs[0].close()
            context.close()
        case 2:
            cycle: list[Any] = [context, graphs]  # only the garbage collector frees it
            cycle.append(cycle)


def execute(rng: random.Random, graph: Graph, oracle: Any, counts: Counter[str]) -> None:
    shape = graph.inputs[0].shape
    bound = graph.bind({t.name: np.zeros(shape, np.float32) for t in graph.inputs})
    for _ in range(rng.randint(1, 20)):
        data = {
            t.name: np.random.default_rng(rng.getrandbits(32)).normal(size=shape).astype(np.float32)
            for t in graph.inputs
        }
        if rng.random() < 0.5:
            for name, values in data.items():
                bound.inputs[name][...] = values
            out = bound.run()
        else:
            out = graph.execute(data)
        counts["executions"] += 1
        expected = oracle(*(data[t.name] for t in graph.inputs))
        if not np.allclose(out["y"], expected, rtol=4e-3, atol=8e-3):  # HTP computes in float16
            raise AssertionError(f"{graph.name}: off by {np.abs(out['y'] - expected).max()}")


def reload(rng: random.Random, context: Context, kinds: dict[str, Any], counts: Counter[str]) -> None:
    """Writes the context, loads it, and executes the loaded one."""
    interfaces = {}
    for name in kinds:
        tensors = context.graph(name).tensors.values()
        interfaces[name] = Interface(
            tuple(t for t in tensors if t.config.type == "APP_WRITE"),
            tuple(t for t in tensors if t.config.type == "APP_READ"),
        )
    with Context.load(context.backend, context.binary(), interfaces) as loaded:
        for name, (_, oracle) in kinds.items():
            execute(rng, loaded.graph(name), oracle, counts)
    counts["binaries"] += 1


def relu(rng: random.Random, name: str) -> tuple[QnnGraph, Any]:
    shape = (rng.randint(1, 16), rng.randint(1, 64))
    tensors = [GraphTensor("x", "f32", shape, "APP_WRITE"), GraphTensor("y", "f32", shape, "APP_READ")]
    return graph_of(name, tensors, [GraphOp("n", "Relu", ("x",), (), ("y",))]), lambda x: np.maximum(x, 0)


def add(rng: random.Random, name: str) -> tuple[QnnGraph, Any]:
    shape = (rng.randint(1, 16), rng.randint(1, 64))
    tensors = [
        GraphTensor("x", "f32", shape, "APP_WRITE"),
        GraphTensor("w", "f32", shape, "APP_WRITE"),
        GraphTensor("y", "f32", shape, "APP_READ"),
    ]
    return graph_of(name, tensors, [GraphOp("n", "ElementWiseAdd", ("x", "w"), (), ("y",))]), np.add


def norm_and_linear(rng: random.Random, name: str) -> tuple[QnnGraph, Any]:
    rows, columns, out = rng.randint(1, 8), 8 * rng.randint(1, 6), rng.randint(1, 16)
    numbers = np.random.default_rng(rng.getrandbits(32))
    weight = (numbers.normal(size=(out, columns)) * columns**-0.5).astype(np.float32)
    gamma = numbers.normal(size=columns).astype(np.float32)
    tensors = [
        GraphTensor("x", "f32", (rows, columns), "APP_WRITE"),
        GraphTensor("gamma", "f32", (columns,), "STATIC", gamma),
        GraphTensor("beta", "f32", (columns,), "STATIC", np.zeros(columns, np.float32)),
        GraphTensor("h", "f32", (rows, columns)),
        GraphTensor("weight", "f32", weight.shape, "STATIC", weight),
        GraphTensor("y", "f32", (rows, out), "APP_READ"),
    ]
    params = (ParamConfig("epsilon", "f32", 1e-3), ParamConfig("axes", "u32", (1,), (1,)))
    ops = [
        GraphOp("n", "LayerNorm", ("x", "gamma", "beta"), params, ("h",)),
        GraphOp("l", "FullyConnected", ("h", "weight"), (), ("y",)),
    ]

    def oracle(x: Array) -> Array:
        centered = x - x.mean(1, keepdims=True)
        return np.asarray(centered / np.sqrt(x.var(1, keepdims=True) + 1e-3) * gamma @ weight.T)

    return graph_of(name, tensors, ops), oracle


KINDS = (relu, add, norm_and_linear)


def graph_of(name: str, tensors: list[GraphTensor], ops: list[GraphOp]) -> QnnGraph:
    return QnnGraph(name, {t.name: t for t in tensors}, ops)


def resident() -> int:
    """The resident memory of this process in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    sys.exit(main())
