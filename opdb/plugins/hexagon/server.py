"""A process under QEMU with the ops of a library: validate, infer, scratch, run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.core.op_config import OpConfig
from opdb.generated import validators
from opdb.plugins.hexagon.frames import INFER, RUN, SCRATCH, VALIDATE, OpFrame, Reader
from opdb.plugins.hexagon.process import Counted, Process
from opdb.runtime.binding import Context
from opdb.runtime.checks import Violation
from opdb.runtime.native import STATUS, Arena, KernelError, numpy_dtype


@dataclass(frozen=True)
class _Head:
    """The first words of an answer."""

    status: int
    scratch: int
    violations: int
    dropped: int
    counted: Counted


class Server(Process):
    """An `opdb_server`.  ``last`` and ``total``: QEMU's counts for the last run, and for all runs."""

    def __init__(self, command: Sequence[str]) -> None:
        super().__init__(command)
        self.last = self.total = Counted()

    def validate(self, config: OpConfig, context: Context | None = None) -> tuple[Violation, ...]:
        """Like opdb.runtime.native.validate.  Raises ServerLost."""
        of = context or Context()
        backend = -1 if of.backend is None else validators.BACKENDS.index(of.backend)
        frame = _asked(OpFrame(VALIDATE, backend, of), config)
        return self._call(config.op, frame, lambda head, reader: None)[2]

    def infer(self, config: OpConfig) -> list[list[int]] | None:
        """Like opdb.runtime.native.infer.  Raises ServerLost."""

        def shapes(head: _Head, reader: Reader) -> list[list[int]]:
            return [list(reader.words(reader.words(1)[0])) for _ in range(reader.words(1)[0])]

        frame = _asked(OpFrame(INFER), config)
        head, found, _ = self._call(config.op, frame, shapes)
        return found if STATUS[head.status] == "ok" else None

    def scratch(self, config: OpConfig) -> int:
        """The bytes of scratch that the op's kernel needs on Hexagon; the op has no data.  Raises ServerLost."""
        frame = _asked(OpFrame(SCRATCH), config)
        return self._call(config.op, frame, lambda head, reader: None)[0].scratch

    def run(self, config: OpConfig, arrays: Sequence[np.ndarray[Any, Any] | None]) -> list[Any]:
        """Like opdb.runtime.native.run: one array for each output.  Raises KernelError and ServerLost."""
        results = [np.empty(t.shape, dtype=numpy_dtype(t.dtype)) for t in config.outputs]
        given = [None if a is None else np.ascontiguousarray(a) for a in arrays]
        arena = Arena()
        struct = arena.op(config, given, results)
        frame = OpFrame(RUN)
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
        self, op: str, frame: OpFrame, body: Callable[[_Head, Reader], Any]
    ) -> tuple[_Head, Any, tuple[Violation, ...]]:
        """Sends a call; returns the head, the result of ``body``, which reads what follows, and the violations."""

        def read(reader: Reader) -> tuple[_Head, Any, tuple[Violation, ...]]:
            status, scratch, count, dropped, *counted = reader.words(7)
            head = _Head(status, scratch, count, dropped, Counted(*counted))
            found = body(head, reader)
            return head, found, tuple(reader.violation() for _ in range(count))

        return self.exchange(op, frame.packed(), read)


def _asked(frame: OpFrame, config: OpConfig) -> OpFrame:
    """``frame`` with the op of ``config``, without data."""
    arena = Arena()  # keeps the memory that the structures point to
    frame.add_op(arena.op(config), with_data=False)
    return frame
