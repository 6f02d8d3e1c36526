"""Times the short commands as whole processes, next to `sqlite-utils --help`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIN = Path(sys.executable).parent
COMMANDS = (
    ("sqlite-utils", "--help"),
    ("opdb", "--help"),
    ("opdb", "query", "ops"),
    ("opdb", "show", "LayerNorm"),
)
ROUNDS = 15


def milliseconds(command: tuple[str, ...], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run([BIN / command[0], *command[1:]], env=env, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        env = os.environ | {"OPDB_URL": f"sqlite:///{folder}/opdb.db"}
        milliseconds(("opdb", "init"), env)
        # In turns, so that a busy moment of the machine meets all of them; the first round warms the caches.
        rounds = [[milliseconds(c, env) for c in COMMANDS] for _ in range(ROUNDS + 1)][1:]
    medians = [statistics.median(times) for times in zip(*rounds, strict=True)]
    for command, median in zip(COMMANDS, medians, strict=True):
        print(
            f"{' '.join(command):24} {median:7.1f} ms  {median / medians[0]:5.2f} x {' '.join(COMMANDS[0])}"
        )


if __name__ == "__main__":
    main()
