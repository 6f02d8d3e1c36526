"""Runs QnnSystem on unverified binaries in a child process, because damaged ones may crash it.

    python -m opdb.runtime.qnn.context_info LIBRARY < BINARY    prints the answer as JSON

This module is light: only the child loads libraries.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from opdb.core.errors import OpdbError
from opdb.runtime.qnn.libraries import Libraries

#: Address space of the child besides the binary, because a damaged count may request any amount.
MEMORY_BYTES = 4 << 30


def ask(binary: bytes | memoryview, name: str, libraries: Libraries, seconds: float = 60) -> dict[str, Any]:
    """``BinaryInfo.json()`` of a library's context binary; ``name`` is for messages.

    Raises OpdbError if QnnSystem refuses it, crashes, or hangs.
    """
    path = libraries.path("SYSTEM")
    # -P: the current folder is not searched for modules
    command = [sys.executable, "-P", "-m", "opdb.runtime.qnn.context_info", str(path.absolute())]
    try:
        done = subprocess.run(command, input=binary, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        raise OpdbError(f"{name}: QnnSystem hung for {seconds:g} s over this binary; it is damaged") from None
    if done.returncode < 0:
        try:
            how = signal.Signals(-done.returncode).name
        except ValueError:
            how = f"signal {-done.returncode}"
        raise OpdbError(f"{name}: QnnSystem crashed with {how} over this binary; it is damaged")
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise OpdbError(f"{name}: QnnSystem ended its process over this binary: {' '.join(last)}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if "error" in answer:
        raise OpdbError(f"{name}: {answer['error']}")
    return answer


def main() -> None:
    """Runs the child process."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps the library's prints out of the answer
    binary = sys.stdin.buffer.read()
    limit = MEMORY_BYTES + 2 * len(binary)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        from opdb.runtime.qnn.system import System

        answer = System(Path(sys.argv[1])).binary_info(binary).json()
    except OpdbError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "QnnSystem reports more than fits into memory; the binary is damaged"}
    with out:
        json.dump(answer, out)


if __name__ == "__main__":
    main()
