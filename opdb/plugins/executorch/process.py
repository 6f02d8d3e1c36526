"""Runs a function in a fresh child process that has the prepared environment.

The dynamic loader only reads ``LD_LIBRARY_PATH`` when a process starts, and the vendor's libraries may
crash or hang; so code that uses them runs in a child with a time limit.  Arguments and results go
through pickle files in a temporary folder (plain values, numpy arrays, bytes, dataclasses of opdb).
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.env import Environment

LAST_LINES = 12
CALL, RESULT, LOG = "call.pickle", "result.pickle", "log.txt"


#: Takes the name of a stage when it begins.
Progress = Callable[[str], None]
#: Where the child writes the stages that it begins, a line each; None in a process that ``call`` did not start.
_stages: int | None = None


def tell(stage: str) -> None:
    """Tells the process that made this one, with ``call(..., progress=...)``, that a stage begins."""
    if _stages is not None:
        os.write(_stages, f"{stage}\n".encode())


class ChildError(OpdbError):
    """A child process ended without a result.

    ``kind``: "raised" (a Python exception), "crashed" (died), or "hung" (time limit).
    ``log``: everything it wrote to stdout and stderr, including the vendor's log lines.
    """

    def __init__(self, message: str, kind: str, log: str) -> None:
        self.kind = kind
        self.log = log
        lines = [line for line in log.splitlines() if line.strip()][-LAST_LINES:]
        tail = "\n".join(f"  | {line[-300:]}" for line in lines)
        super().__init__(f"{message}; its last lines:\n{tail}" if lines else message)


def call(
    entry: str,
    /,
    *args: Any,
    environment: Environment,
    timeout: float = 600.0,
    path: Sequence[str | Path] = (),
    progress: Progress | None = None,
    **kwargs: Any,
) -> Any:
    """Returns the result of ``entry(*args, **kwargs)``, computed in a child process.

    ``entry``: "module:function".  ``timeout``: in seconds.  ``path``: folders put before this
    process's ``sys.path`` in the child's.  ``progress``: is called with each stage that the function tells (``tell``).

    Raises the OpdbError that the function raised, or ChildError.
    """
    with tempfile.TemporaryDirectory(prefix="opdb-") as folder:
        here = Path(folder)
        search = [*map(str, path), *sys.path]
        (here / CALL).write_bytes(pickle.dumps((search, entry, pickle.dumps((args, kwargs)))))
        code = _run(here, environment, timeout, progress)
        log = (here / LOG).read_text(errors="replace")
        if code is None:
            raise ChildError(
                f"{entry} did not finish within {timeout:g} s and was stopped; emulation is slow: "
                f"try --timeout {4 * timeout:g}",
                "hung",
                log,
            )
        if not (here / RESULT).exists():
            how = (
                f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            )
            raise ChildError(f"{entry} {how} without a result", "crashed", log)
        ok, value = pickle.loads((here / RESULT).read_bytes())
        if ok:
            return value
        if isinstance(value, OpdbError):
            raise value
        raise ChildError(f"{entry} failed: {value}", "raised", log)


def _run(folder: Path, environment: Environment, timeout: float, progress: Progress | None) -> int | None:
    """Returns the child's exit code, or None if it was stopped at the time limit."""
    stages, told = os.pipe()
    bootstrap = (
        "import pickle, sys\n"
        f"sys.path[:] = pickle.loads(open({str(folder / CALL)!r}, 'rb').read())[0]\n"
        "from opdb.plugins.executorch.process import main\n"
        f"main({str(folder)!r}, {told})\n"
    )
    with open(folder / LOG, "wb") as log, open(stages, encoding="utf-8") as lines:
        child = subprocess.Popen(
            [sys.executable, "-c", bootstrap],
            env=environment.child(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(told,),
        )
        os.close(told)
        if progress is not None:
            threading.Thread(target=_follow, args=(lines, progress), daemon=True).start()
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)  # the child and everything it started
                child.wait()


def _follow(lines: TextIO, progress: Progress) -> None:
    """Passes the child's stages on until it ends."""
    with suppress(ValueError):  # closed meanwhile
        for line in lines:
            progress(line.strip())


def resolve(entry: str) -> Callable[..., Any]:
    """The function named by "module:function".  Raises OpdbError if there is none."""
    module, _, name = entry.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as e:
        raise OpdbError(f"{entry}: {e}; expected module:function") from e
    if not callable(found):
        raise OpdbError(f"{entry}: not a function")
    return found  # type: ignore[no-any-return]


def main(folder: str, stages: int | None = None) -> None:
    """The child's side of ``call``: reads the call, writes (True, result) or (False, error); ``stages``: see ``tell``."""
    global _stages
    _stages = stages
    gc.set_threshold(50_000, 20, 50)  # lowering makes millions of objects, few of them in cycles
    here = Path(folder)
    result: tuple[bool, Any]
    try:
        _, entry, packed = pickle.loads((here / CALL).read_bytes())
        args, kwargs = pickle.loads(packed)
        result = (True, resolve(entry)(*args, **kwargs))
        data = pickle.dumps(result)
    except OpdbError as e:
        data = pickle.dumps((False, _portable(e)))
    except Exception as e:
        traceback.print_exc()
        text = str(e).strip().splitlines()
        data = pickle.dumps((False, f"{type(e).__name__}: {text[0] if text else ''}".rstrip(": ")))
    temporary = here / (RESULT + ".part")
    temporary.write_bytes(data)
    os.replace(temporary, here / RESULT)
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # writes the vendor's lines
    os._exit(0)  # the vendor's libraries sometimes crash during unloading; the result is written


def _portable(error: OpdbError) -> OpdbError:
    """``error`` if it survives pickling, otherwise its text as a plain OpdbError."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return OpdbError(str(error))
    return error
