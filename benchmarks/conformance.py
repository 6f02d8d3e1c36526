"""Time and peak memory of a conformance run, divided over processes and over Dask workers of this machine.

Each way has a separate database, loaded before.  Memory is the proportional set size (shared pages count
once) of the command, its processes, the vendor's children and, with --workers, the workers, sampled
twice a second.  The rows of all ways are compared: case, executor, SoC, verdicts and codes.

    python benchmarks/conformance.py [--op NAME]... [--jobs N]... [--workers N]... [-o DIR]   default: --jobs 2
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from distributed import LocalCluster

from opdb.catalog.store import Store
from opdb.measure.conformance.report import read_rows

PERIOD = 0.5  # seconds
Rows = dict[tuple[str, str, str], tuple[object, ...]]
OPDB = [sys.executable, "-m", "opdb"]


class Memory:
    """The greatest sum over this process's descendants, in bytes; a thread polls while it is entered."""

    def __init__(self) -> None:
        self.peak, self._done = 0, threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(PERIOD):
            found = psutil.Process().children(recursive=True)
            self.peak = max(self.peak, sum(map(pages, found)))


def pages(process: psutil.Process) -> int:
    """The proportional set size of a process; 0 if it has ended."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def rows(url: str) -> Rows:
    """(case, executor, SoC) -> the verdicts and the code."""
    return {
        (r.case, r.executor, r.soc): (r.validates, r.finalizes, r.executes, r.matches, r.code)
        for r in read_rows(Store(url))
    }


def measured(name: str, ops: Sequence[str], way: Sequence[str], folder: Path) -> Rows:
    url = f"sqlite:///{folder / 'opdb.db'}"
    subprocess.run([*OPDB, "init", "--db", url], check=True, stdout=subprocess.DEVNULL)
    asked = [a for op in ops for a in ("--op", op)]
    began = time.monotonic()
    with Memory() as memory:
        done = subprocess.run(
            [*OPDB, "conformance", "run", "--db", url, *asked, *way],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    took = time.monotonic() - began
    found = rows(url)
    print(
        f"{name:16} {took:8.0f} s {memory.peak / 2**30:6.2f} GiB at most {len(found):8} rows, exit {done.returncode}"
    )
    if done.returncode > 1:
        raise SystemExit(done.returncode)
    (folder / "said.txt").write_text(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--op", action="append", default=[])
    parser.add_argument("--jobs", action="append", type=int, default=[])
    parser.add_argument("--workers", action="append", type=int, default=[])
    parser.add_argument("-o", "--output", type=Path, help="keeps databases and summaries in this folder")
    asked = parser.parse_args()
    ways = [("jobs", n) for n in asked.jobs] + [("workers", n) for n in asked.workers] or [("jobs", 2)]
    first: Rows = {}
    with ExitStack() as stack:
        output = asked.output or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opdb-")))
        for way, n in ways:
            folder = output.resolve() / f"{way}-{n}"
            folder.mkdir(parents=True)
            if way == "jobs":
                found = measured(f"{n} processes", asked.op, ["--jobs", str(n)], folder)
            else:
                with LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=":0") as cluster:
                    found = measured(
                        f"{n} Dask workers", asked.op, ["--dask", cluster.scheduler_address], folder
                    )
            first = first or found
            other = [k for k in first.keys() | found.keys() if first.get(k) != found.get(k)]
            print(
                f"{'':16} rows that differ from the first: {len(other)}",
                *sorted(map(str, other))[:5],
                sep="\n  ",
            )


if __name__ == "__main__":
    main()
