"""A scheduler and workers on this machine, each worker a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = str(Path(__file__).parents[1])
#: Dask gives up a job if more of its workers died; each death costs the start of a process.
ALLOWED_DEATHS = 1


def path_with_tests() -> str:
    """PYTHONPATH for processes that import modules of the tests; existing entries stay first."""
    return os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), ROOT]))


@contextmanager
def local_cluster(workers: int = 2, **env: str) -> Iterator[Any]:
    """A LocalCluster of processes, one thread each, with ``env`` added to this process's environment."""
    distributed, config = pytest.importorskip("distributed"), pytest.importorskip("dask.config")
    if ROOT not in sys.path:
        sys.path.append(ROOT)  # workers inherit it
    with config.set({"distributed.scheduler.allowed-failures": ALLOWED_DEATHS}), distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=":0",
        env=env,
    ) as cluster:  # fmt: skip
        yield cluster


@contextmanager
def dask_worker(address: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker of one thread, as on another machine."""
    command = [
        sys.executable, "-P", "-m", "distributed.cli.dask_worker", address, "--nworkers", "1", "--nthreads", "1",
        "--no-dashboard", "--no-nanny",
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": path_with_tests(), **env}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as worker:
        try:
            yield worker
        finally:
            worker.kill()


@contextmanager
def scheduler(file: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler in a separate process, which writes its description to ``file``; and its address."""
    command = [
        sys.executable, "-P", "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0",
        "--no-dashboard", "--scheduler-file", str(file),
    ]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": path_with_tests()}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not file.exists() or not file.read_text():
                assert process.poll() is None
                time.sleep(0.1)
            yield process, str(json.loads(file.read_text())["address"])
        finally:
            process.kill()


def kill_a_worker(cluster: Any) -> int:
    """Sends SIGKILL to a worker's process, which its nanny then restarts; returns its process id."""
    nanny = next(iter(cluster.workers.values()))
    pid = int(nanny.pid)
    os.kill(pid, signal.SIGKILL)
    return pid
