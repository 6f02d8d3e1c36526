"""Jobs for the tests of pools, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from opdb.core.errors import OpdbError


@dataclass(frozen=True)
class Number:
    """A job that asks for a square; ``deaths``: how many processes it kills first."""

    value: int
    deaths: int = 0
    folder: str = ""

    @property
    def name(self) -> str:
        return f"number {self.value}"


@dataclass(frozen=True)
class Squares:
    """Squares, each after ``seconds``; they depend on the variable OPDB_TEST_FACT of a process."""

    seconds: float = 0.0

    def open(self) -> Squarer:
        return Squarer(self.seconds)

    def facts(self) -> dict[str, str]:
        return {"the fact": os.environ.get("OPDB_TEST_FACT", "same")}


class Squarer:
    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def answer(self, job: Number) -> tuple[int, int]:
        """The square, and the pid of the process that computed it."""
        time.sleep(self.seconds)
        if job.value < 0:
            raise OpdbError(f"{job.value} is below 0")
        if job.value == 13:
            raise ZeroDivisionError("thirteen")
        for n in range(job.deaths):
            path = Path(job.folder, f"{job.value}.{n}")
            if not path.exists():
                path.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return job.value**2, os.getpid()

    def close(self) -> None:
        """There is nothing to release."""
