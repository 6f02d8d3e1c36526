"""Children of ``opdb.plugins.executorch.process`` by fork, from a process that has imported PyTorch and ExecuTorch already.

Some hundred tests have a child each, and its imports are most of what the short ones take.  The process that
forks imports and computes nothing, so a child finds what a new one finds after its imports.
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

#: What most children import; nothing of it opens a library of the vendor's.
IMPORTED = ("opdb.plugins.executorch.flow", "executorch.backends.qualcomm.quantizer.quantizer")
started = process._run
_forking: dict[str, subprocess.Popen[str]] = {}


def run(folder: Path, environment: Environment, timeout: float) -> int | None:
    """In the place of ``process._run``: a forked child's exit code, or None when it was stopped at the time limit."""
    variables = environment.child()
    forking = _forking_process(variables)
    assert forking.stdin is not None and forking.stdout is not None
    forking.stdin.write(json.dumps([str(folder), variables, timeout]) + "\n")
    forking.stdin.flush()
    code: int | None = json.loads(forking.stdout.readline())
    return code


def _forking_process(variables: dict[str, str]) -> subprocess.Popen[str]:
    """One for each LD_LIBRARY_PATH, which the dynamic loader reads when a process starts."""
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
    """For each folder, its variables and time limit, a line of JSON: a child, and one line with its exit code or null.

    One answer for each call: of two that come together, a reader that waits for the second would find one.
    """
    with os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what the imports print
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
    """The child's exit code; None when it and whatever it started were stopped at the time limit, in seconds."""
    ended = os.pidfd_open(child)
    hung = not select.select([ended], [], [], timeout)[0]
    os.close(ended)
    if hung:
        os.killpg(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if hung else code


def _become(folder: Path, variables: dict[str, str]) -> None:
    """The child: as if it had been started with this log and these variables.  Never returns."""
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
