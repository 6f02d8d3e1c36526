"""Forks children of ``opdb.plugins.executorch.process`` from a process that has already imported PyTorch and ExecuTorch.

Some hundred tests have a child each, and its imports take most of the time of the short ones.  The process that
forks only imports, so a child's state equals that of a new process after its imports.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
from pathlib import Path

from opdb.plugins.executorch import process
from opdb.plugins.executorch.env import Environment

#: The imports of most children; none of them opens a vendor library.
IMPORTED = ("opdb.plugins.executorch.flow", "executorch.backends.qualcomm.quantizer.quantizer")
started = process._run
_forking: dict[str, subprocess.Popen[str]] = {}


def run(
    folder: Path, environment: Environment, timeout: float, progress: process.Progress | None = None
) -> int | None:
    """Replaces ``process._run``: a forked child's exit code, or None if it was stopped at the time limit; tells no stages."""
    variables = environment.child()
    forking = _forking_process(variables)
    assert forking.stdin is not None and forking.stdout is not None
    forking.stdin.write(json.dumps([str(folder), variables, timeout]) + "\n")
    forking.stdin.flush()
    code: int | None = json.loads(forking.stdout.readline())
    return code


def _forking_process(variables: dict[str, str]) -> subprocess.Popen[str]:
    """One forking process for each LD_LIBRARY_PATH, which the dynamic loader reads when a process starts."""
    key = variables["LD_LIBRARY_PATH"]
    if key not in _forking:
        code = f"import sys; sys.path[:] = {[str(Path(__file__).parent), *sys.path]!r}; import forked; forked.serve()"
        made = subprocess.Popen(
            [sys.executable, "-c", code],
            env=variables,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(made.kill)
        _forking[key] = made
    return _forking[key]


def serve() -> None:
    """Reads a line of JSON per child (folder, variables, time limit), and answers each with its exit code or null.

    Each call gets one answer: a reader waiting for the second of two simultaneous answers would find one.
    """
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for output of the imports
        for name in IMPORTED:
            importlib.import_module(name)
        importlib.import_module("spare_time").spare_time()  # the tests' folder is on this process's path
        for line in sys.stdin:
            folder, variables, timeout = json.loads(line)
            child = os.fork()
            if child == 0:
                _become(Path(folder), variables)
            print(json.dumps(wait(child, timeout)), file=answers)


def wait(child: int, timeout: float) -> int | None:
    """The child's exit code; None if it and its descendants were stopped at the time limit, in seconds."""
    ended = os.pidfd_open(child)
    hung = not select.select([ended], [], [], timeout)[0]
    os.close(ended)
    if hung:
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if hung else code


def _become(folder: Path, variables: dict[str, str]) -> None:
    """Becomes the child, as if started with this log and these variables.  Never returns."""
    try:
        os.setsid()
        log = os.open(folder / process.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for opened, stream in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2)):
            os.dup2(opened, stream)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:] = pickle.loads((folder / process.CALL).read_bytes())[0]
        process.main(str(folder))
    except SystemExit as ended:
        os._exit(ended.code if isinstance(ended.code, int) else 1)
    finally:
        os._exit(1)
