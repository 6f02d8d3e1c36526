"""A process under QEMU that has the ops of a library: validate, infer, scratch, run."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import IO, Any

import numpy as np

from opdb.errors import OpdbError
from opdb.generated import validators
from opdb.hexagon.frames import INFER, RUN, SCRATCH, VALIDATE, Frame, Reader
from opdb.op_config import OpConfig
from opdb.runtime.binding import Context
from opdb.runtime.checks import Violation
from opdb.runtime.native import STATUS, Arena, KernelError, numpy_dtype

#: Seconds that one call may take.
CALL_SECONDS = 300.0


@dataclass(frozen=True)
class Counted:
    """What QEMU counted of a kernel and its shim, without the validator: code, not cycles.  The same in every run."""

    packets: int = 0
    instructions: int = 0
    vector: int = 0  # instructions of HVX

    def __str__(self) -> str:
        return f"{self.packets:,} packets, {self.instructions:,} instructions, {self.vector:,} of HVX"

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class ServerLost(OpdbError):
    """The process ended, or was ended after CALL_SECONDS (``hung``), in the middle of a call."""

    def __init__(self, op: str, how: str, hung: bool) -> None:
        self.hung = hung
        super().__init__(f"{op}: the process that computes on Hexagon {how}")


@dataclass(frozen=True)
class _Head:
    """The first words of an answer."""

    status: int
    scratch: int
    violations: int
    dropped: int
    counted: Counted


class Server:
    """The program of ``command`` in a child process, started with the first call and again after it was lost.

    ``last`` and ``total``: what the last run, and all of them, executed.  A context manager; calls from one thread.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._process: subprocess.Popen[bytes] | None = None
        self.last = self.total = Counted()

    def validate(self, config: OpConfig, context: Context | None = None) -> tuple[Violation, ...]:
        """As opdb.runtime.native.validate.  Raises ServerLost."""
        of = context or Context()
        backend = -1 if of.backend is None else validators.BACKENDS.index(of.backend)
        frame = _asked(Frame(VALIDATE, backend, of), config)
        return self._call(config.op, frame, lambda head, reader: None)[2]

    def infer(self, config: OpConfig) -> list[list[int]] | None:
        """As opdb.runtime.native.infer.  Raises ServerLost."""

        def shapes(head: _Head, reader: Reader) -> list[list[int]]:
            return [list(reader.words(reader.words(1)[0])) for _ in range(reader.words(1)[0])]

        frame = _asked(Frame(INFER), config)
        head, found, _ = self._call(config.op, frame, shapes)
        return found if STATUS[head.status] == "ok" else None

    def scratch(self, config: OpConfig) -> int:
        """The bytes of scratch that the op's kernel needs there, of an op without data.  Raises ServerLost."""
        frame = _asked(Frame(SCRATCH), config)
        return self._call(config.op, frame, lambda head, reader: None)[0].scratch

    def run(self, config: OpConfig, arrays: Sequence[np.ndarray[Any, Any] | None]) -> list[Any]:
        """As opdb.runtime.native.run: one array for each output.  Raises KernelError and ServerLost."""
        results = [np.empty(t.shape, dtype=numpy_dtype(t.dtype)) for t in config.outputs]
        given = [None if a is None else np.ascontiguousarray(a) for a in arrays]
        arena = Arena()
        struct = arena.op(config, given, results)
        frame = Frame(RUN)
        frame.add_op(struct, with_data=True)

        def outputs(head: _Head, reader: Reader) -> list[bytes]:
            return [reader.block(reader.words(1)[0]) for _ in range(struct.num_outputs)]

        head, data, violations = self._call(config.op, frame, outputs)
        self.last = head.counted
        self.total += head.counted
        if STATUS[head.status] != "ok":
            raise KernelError(config.op, STATUS[head.status], violations)
        return [
            np.frombuffer(block, dtype=r.dtype).reshape(r.shape)
            for block, r in zip(data, results, strict=True)
        ]

    def _call(
        self, op: str, frame: Frame, body: Callable[[_Head, Reader], Any]
    ) -> tuple[_Head, Any, tuple[Violation, ...]]:
        """Sends a call and reads the head, what ``body`` reads behind it, and the violations."""
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        hung = threading.Event()

        def end() -> None:
            hung.set()
            process.kill()

        timer = threading.Timer(CALL_SECONDS, end)
        timer.start()
        try:
            process.stdin.write(frame.packed())
            process.stdin.flush()
            reader = Reader(lambda n: _exactly(process.stdout, n))
            status, scratch, count, dropped, *counted = reader.words(7)
            head = _Head(status, scratch, count, dropped, Counted(*counted))
            found = body(head, reader)
            return head, found, tuple(reader.violation() for _ in range(count))
        except (EOFError, BrokenPipeError):
            raise ServerLost(op, self._lost(), hung.is_set()) from None
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
        """How the process ended; it is gone then."""
        assert self._process is not None
        process, self._process = self._process, None
        process.kill()
        said = process.communicate()[1].decode(errors="replace").strip().splitlines()
        return f"ended with {process.returncode}{': ' if said else ''}{said[-1] if said else ''}"

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            with suppress(BrokenPipeError):
                self._process.communicate()
            self._process = None

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _asked(frame: Frame, config: OpConfig) -> Frame:
    """``frame`` with the op of ``config``, without data."""
    arena = Arena()  # holds what the structures point to
    frame.add_op(arena.op(config), with_data=False)
    return frame


def _exactly(stream: IO[bytes] | None, size: int) -> bytes:
    assert stream is not None
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
