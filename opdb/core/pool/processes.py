"""A pool of processes on this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any

from opdb.core.errors import OpdbError
from opdb.core.names import counted
from opdb.core.pool.work import DEATHS, Work


class Process:
    """One run of opdb.core.pool.child, and the job that it works on."""

    def __init__(self, work: Work) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                # -P: the current folder may hold another thing called opdb
                [sys.executable, "-P", "-m", "opdb.core.pool.child", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C is for the parent: a library that it ends has not crashed
            )
        self.connection = Connection(ours.detach())
        self.job: Any = None
        self.deaths = 0  # the number of processes that died at this job before
        self._send(work)

    def ask(self, job: Any, deaths: int = 0) -> None:
        """Starts a job."""
        self.job, self.deaths = job, deaths
        self._send(job)

    def _send(self, what: Any) -> None:
        try:
            self.connection.send(what)
        except OSError:
            return  # it is gone, which ``answer`` finds out

    def answer(self) -> Any:
        """The answer to the job; an OpdbError if it could not be done.  Raises EOFError if the process is gone."""
        try:
            kind, value = self.connection.recv()
        except OSError:
            raise EOFError from None
        if kind == "fault":
            raise RuntimeError(f"an internal error of opdb in a child process, at {self.job.name}:\n{value}")
        return OpdbError(value) if kind == "error" else value

    def end(self) -> int:
        """Ends the process; returns its exit code, negative for the signal that ended it."""
        self.connection.close()
        try:
            return self.process.wait(1)
        except subprocess.TimeoutExpired:
            self.process.kill()  # its libraries leave with it
            return self.process.wait()


class Processes:
    """Up to ``number`` processes, each started as soon as there is a job for it."""

    def __init__(self, work: Work, number: int) -> None:
        self._work, self._number = work, number
        self._idle: list[Process] = []
        self._busy: dict[Connection, Process] = {}

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in (*self._idle, *self._busy.values()):
            process.end()

    def answers(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """See Pool."""
        waiting, again = iter(jobs), deque[tuple[Any, int]]()
        while True:
            while len(self._busy) < self._number:
                job, deaths = again.popleft() if again else (next(waiting, None), 0)
                if job is None:
                    break
                process = self._idle.pop() if self._idle else Process(self._work)
                self._busy[process.connection] = process
                process.ask(job, deaths)
            if not self._busy:
                return
            for ready in wait(list(self._busy)):
                process = self._busy.pop(ready)  # type: ignore[call-overload]
                try:
                    answer = process.answer()
                except EOFError:
                    again.append((process.job, _deaths(process)))
                    continue
                self._idle.append(process)
                yield process.job, answer


def _deaths(process: Process) -> int:
    """The number of processes that ended at this one's job, including itself.  Raises OpdbError if there are DEATHS."""
    code, deaths = process.end(), process.deaths + 1
    if deaths == DEATHS:
        raise OpdbError(
            f"{counted(deaths, 'process', 'processes')} ended at {process.job.name}, the last one with {code}; "
            f"what was answered before is kept"
        )
    return deaths
