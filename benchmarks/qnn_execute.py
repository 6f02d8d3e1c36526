"""Time per execution of a small graph on QNN's real libraries: Python against the same loop in C.

Relu on float32 [8, 16].  "C" is the vendor's ``QnnGraph_execute`` in a loop of qnn_execute.c, which the system's
compiler ($CC or cc) builds here, in a separate process; "C here" the same loop in Python's process, on Python's
graph.  "run" is ``Execution.run`` with arrays bound once, "execute" is ``Graph.execute`` with a dict of arrays
each time.  Rounds of the four take turns; the best round of each counts, in microseconds.

Python is compared with "C here", which differs from it by Python alone: the libraries' own time depends on the
heap and the threads of the process by up to 10 microseconds, either way.

"growth" is how much the resident memory of the Python process grew over all executions but those of the first
two rounds.  All log at the level of --log-level.

Exits 1 when Python takes more than 20 microseconds longer than C, or the memory grew by more than 1 MiB.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import LEVELS
from opdb.runtime.qnn.libraries import installed
from opdb.runtime.qnn.native import CData, ffi
from opdb.runtime.qnn.session import log_level

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 20
LIMIT_US, LIMIT_KIB = 20.0, 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--executions", type=int, default=100_000, help="per column, on the CPU")
    parser.add_argument("--htp-executions", type=int, default=10_000, help="per column, on HTP (0: none)")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--log-level", default="warning", choices=LEVELS.values())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder) / "qnn_execute")
        loop = ctypes.CDLL(str(compiled(Path(folder) / "qnn_execute.so", "-shared", "-fPIC"))).microseconds
        loop.restype, loop.argtypes = (
            ctypes.c_double,
            [*[ctypes.c_void_p] * 2, ctypes.c_long, *[ctypes.c_void_p] * 2],
        )
        rows = [measure(program, loop, "CPU", None, options.executions, options.log_level)]
        if options.htp_executions:
            rows.append(measure(program, loop, "HTP", options.soc, options.htp_executions, options.log_level))
    heads = ("C", "C here", "run", "execute", "run +", "execute +", "growth KiB")
    print(f"{'backend':12} {'executions':>10} " + " ".join(f"{head:>11}" for head in heads))
    for name, executions, *figures in rows:
        print(f"{name:12} {executions:10} " + " ".join(f"{figure:11.2f}" for figure in figures))
    bad = [row[0] for row in rows if max(row[6], row[7]) > LIMIT_US or row[8] > LIMIT_KIB]
    for name in bad:
        print(f"{name}: over the bound of {LIMIT_US:g} us per execution or {LIMIT_KIB} KiB", file=sys.stderr)
    return bool(bad)


def compiled(out: Path, *options: str) -> Path:
    sources = [str(ROOT / "benchmarks/qnn_execute.c"), str(ROOT / "runtime/qnn/qnn_binding.c")]
    includes = ["-I", str(ROOT / "generated/c/include"), "-I", str(ROOT / "runtime/qnn")]
    command = [os.environ.get("CC", "cc"), "-std=c99", "-O2", *options, *includes, "-o", str(out), *sources]
    subprocess.run([*command, "-ldl", "-lpthread", "-lm"], check=True)
    return out


def measure(
    program: Path, loop: Any, name: str, soc: str | None, executions: int, level: str
) -> tuple[str, int, float, float, float, float, float, float, float]:
    """A row of the table."""
    x, y = GraphTensor("x", "f32", (8, 16), "APP_WRITE"), GraphTensor("y", "f32", (8, 16), "APP_READ")
    graph = QnnGraph("relu", {"x": x, "y": y}, [GraphOp("relu0", "Relu", ("x",), (), ("y",))])
    data = np.arange(128, dtype=np.float32).reshape(8, 16) - 64
    n = executions // ROUNDS
    number = SOCS[soc].soc_model if soc else 0
    command = [str(program), str(installed().path(name)), str(number), str(n), "1", str(log_level(level))]
    best, grown = [float("inf")] * 4, 0.0
    with quiet(), Backend.open(name, soc, log_level=level) as backend, backend.prepare(graph) as prepared:
        execution = prepared.bind({"x": data})
        interface, handle, x_struct, _, y_struct, _ = execution._call._args
        here = [address(v) for v in (interface, handle, x_struct, y_struct)]
        columns: list[Callable[[], float]] = [
            lambda: in_c(command),
            lambda: float(loop(here[0], here[1], n, here[2], here[3])),
            lambda: timed(execution.run, n),
            lambda: timed(lambda: prepared.execute({"x": data}), n),
        ]
        for round_ in range(ROUNDS):
            before = resident()
            best = [min(b, column()) for b, column in zip(best, columns, strict=True)]
            grown += resident() - before if round_ > 1 else 0
        np.testing.assert_allclose(execution.outputs["y"], np.maximum(data, 0), atol=1e-3)
    alone, c, run, execute = best
    label = f"{name} {soc}" if soc else name
    return label, n * ROUNDS, alone, c, run, execute, run - c, execute - c, grown


def in_c(command: list[str]) -> float:
    """Microseconds per execution in a separate process; HTP prints its own lines between the numbers."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(re.findall(r"^\d+\.\d{4}$", done.stdout, re.MULTILINE)[-1])


def address(pointer: CData) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def timed(call: Callable[[], object], n: int) -> float:
    """Microseconds per call."""
    begin = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - begin) / n * 1e6


def resident() -> float:
    """The resident memory of this process in KiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1024


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps HTP's output during graph preparation out of the table."""
    sys.stdout.flush()
    kept = os.dup(1)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    sys.exit(main())
