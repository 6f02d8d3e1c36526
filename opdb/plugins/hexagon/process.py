"""A Hexagon program in a child process under QEMU that answers calls; it is started, called, and ended here."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import IO, Self, TypeVar

from opdb.core.errors import OpdbError
from opdb.plugins.hexagon.frames import Reader

#: The time limit of one call.
CALL_SECONDS = 300.0
T = TypeVar("T")


@dataclass(frozen=True)
class Counted:
    """QEMU's counts for a kernel and its shim, without the validator: code, not cycles.  Equal in every run."""

    packets: int = 0
    instructions: int = 0
    vector: int = 0  # HVX instructions

    def __str__(self) -> str:
        return f"{self.packets:,} packets, {self.instructions:,} instructions, {self.vector:,} of HVX"

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class ServerLost(OpdbError):
    """The process ended during a call, or was killed after CALL_SECONDS (``hung``)."""

    def __init__(self, op: str, how: str, hung: bool) -> None:
        self.hung = hung
        super().__init__(f"{op}: the process that computes on Hexagon {how}")


class Process:
    """The program of ``command``, started by the first call, and again after it was lost.

    A context manager; calls from one thread.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None

    def exchange(self, what: str, call: bytes, read: Callable[[Reader], T]) -> T:
        """Sends a call and reads its answer.  Raises ServerLost, with ``what`` in its message."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        hung = threading.Event()

        def end() -> None:
            hung.set()
            process.kill()

        timer = threading.Timer(CALL_SECONDS, end)
        timer.start()
        try:
            process.stdin.write(call)
            process.stdin.flush()
            return read(Reader(lambda size: _exactly(process.stdout, size)))
        except (EOFError, BrokenPipeError):
            raise ServerLost(what, self._lost(), hung.is_set()) from None
        finally:
            timer.cancel()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            try:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
                )
            except OSError as error:
                raise OpdbError(f"{self._command[0]}: cannot be started: {error.strerror}") from None
        return self._process

    def _lost(self) -> str:
        """Cleans up after the process; returns how it ended."""
        assert self._process is not None
        process, self._process = self._process, None
        with suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        said = process.stderr.read().decode(errors="replace").strip().splitlines()  # type: ignore[union-attr]
        code = process.wait()
        return f"ended with {code}{': ' if said else ''}{said[-1] if said else ''}"

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _exactly(stream: IO[bytes] | None, size: int) -> bytes:
    assert stream is not None
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
