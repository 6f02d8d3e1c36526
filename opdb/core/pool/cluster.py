"""A pool of Dask's workers, on one machine or many.

Dask runs a job again when its worker dies, and gives up on a job after several deaths.  It counts a death for every
job that the worker had, so a job that only waited there may be given up: such a job runs once more, alone, before it
is named as the cause.  Each worker has its own opdb and libraries; they are compared with
this machine's before the first job, and again in each process that begins to answer.
"""

from __future__ import annotations

import functools
import logging
import os
import pickle
import queue
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from importlib import metadata
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.install import DISTRIBUTION
from opdb.core.pool.facts import difference
from opdb.core.pool.work import Server, Work
from opdb.core.version import __version__

#: Seconds until a scheduler must have answered, and until it must have a worker.
CONNECT, WORKERS = 10.0, 30.0
#: Jobs that are sent ahead to each thread of a worker, besides the one that it works on.
AHEAD = 1
#: Servers that a thread of a worker keeps open: this many commands can share the workers.
KEPT = 4
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx")


class _WorkersDied(OpdbError):
    """Dask gave up on a job: several workers that had it died."""


class Cluster:
    """The workers of one scheduler; a context manager.  See opdb.core.pool.open_pool for what it raises."""

    def __init__(self, work: Work, address: str) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise MissingExtra(
                "Dask (the packages dask and distributed), which --dask needs,", "dask"
            ) from None
        _require_address(address)
        for name in ("distributed", "distributed.client"):  # opdb's errors say it in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.address = address
        self._work, self._facts = pickle.dumps(work), dict(work.facts())
        try:
            self._client: Any = Client(address, timeout=CONNECT, set_as_default=False)
        except OSError as error:  # a TimeoutError is one
            raise OpdbError(
                f"--dask {address}: no Dask scheduler answers there ({_line(error)}); start one with 'dask scheduler' and "
                "give the address that it prints, e.g. tcp://10.0.0.5:8786"
            ) from None
        try:
            self._compare()
        except OSError as error:
            self._client.close()
            raise OpdbError(self._gone(f"the scheduler is gone ({_line(error)})")) from None
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._client.run(_close, self._work, on_error="ignore")
        except Exception:  # a worker's servers end with it
            pass
        finally:
            self._client.close()

    def answers(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """See Pool."""
        waiting, asked = iter(jobs), dict[Any, Any]()  # by future
        done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        suspects = list[Any]()  # given up once
        held = self._client.submit(_same, self._work, pure=False)  # Dask makes it again if it is lost

        def ask(job: Any) -> None:
            future = self._client.submit(_answer, held, self._pack(job), pure=False)
            asked[future] = job
            future.add_done_callback(done.put)

        try:
            while True:
                room = 0 if suspects else self._room()
                while len(asked) < room and (job := next(waiting, None)) is not None:
                    ask(job)
                alone = bool(suspects) and not asked
                if alone:
                    ask(suspects.pop())
                if not asked:
                    return
                future = self._next(done)
                job = asked.pop(future)
                try:
                    answer = self._result(future, job)
                except _WorkersDied:
                    if alone:
                        raise
                    suspects.append(job)
                else:
                    yield job, answer
        finally:
            for future in asked:
                future.cancel()

    def _pack(self, job: Any) -> bytes:
        return pickle.dumps((self._facts, job))

    def _room(self) -> int:
        """The largest number of jobs under way; it changes as workers come and go."""
        return self._threads() * (1 + AHEAD) or 1

    def _threads(self) -> int:
        """The number of threads of all workers.  Raises OpdbError if the scheduler does not answer."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except OSError as error:
            raise OpdbError(self._gone(f"the scheduler is gone ({_line(error)})")) from None
        return sum(threads.values())

    def _next(self, done: queue.SimpleQueue[Any]) -> Any:
        """The next future that is done.  Raises OpdbError if no worker is left, or the scheduler is gone."""
        alone = time.monotonic()
        while True:
            try:
                return done.get(timeout=1)
            except queue.Empty:
                pass
            if self._client.status != "running":
                raise OpdbError(self._gone("the scheduler is gone")) from None
            if self._threads():
                alone = time.monotonic()
            elif time.monotonic() - alone > WORKERS:
                raise OpdbError(self._gone(f"it has had no worker for {WORKERS:g} s"))

    def _result(self, future: Any, job: Any) -> Any:
        from distributed.scheduler import KilledWorker

        try:
            kind, value = future.result()
        except KilledWorker:
            raise _WorkersDied(self._gone(f"several workers ended at {job.name}")) from None
        except Exception as error:
            raise OpdbError(self._gone(f"no answer about {job.name} ({_line(error)})")) from error
        if kind == "differs":
            raise OpdbError(f"--dask {self.address}: {value}")
        if kind == "fault":
            raise RuntimeError(f"an internal error of opdb in a worker, at {job.name}:\n{value}")
        return OpdbError(value) if kind == "error" else value

    def _gone(self, why: str) -> str:
        return f"--dask {self.address}: {why}; what was answered before is kept"

    def _compare(self) -> None:
        """Raises OpdbError unless there are workers and all have the same versions and facts as this machine."""
        try:
            self._client.wait_for_workers(1, timeout=WORKERS)
        except TimeoutError:
            raise OpdbError(
                f"--dask {self.address}: the scheduler has no workers; start some with: dask worker {self.address}"
            ) from None
        # Only calls functions of Python itself, since opdb may be missing or another one.
        version = functools.partial(metadata.version, DISTRIBUTION)
        versions = {"the scheduler": self._on_scheduler(version)}
        versions |= {f"the worker {w}": v for w, v in self._client.run(version, on_error="return").items()}
        for who, found in versions.items():
            if isinstance(found, Exception):
                raise OpdbError(self._differs(who, f"it has no opdb ({_line(found)})"))
            if found != __version__:
                raise OpdbError(self._differs(who, f"opdb is {found} there and {__version__} here"))
        for worker, found in self._client.run(_facts, self._work, on_error="return").items():
            why = _line(found) if isinstance(found, Exception) else difference(self._facts, found)
            if why:
                raise OpdbError(self._differs(f"the worker {worker}", why))

    def _on_scheduler(self, function: Any) -> Any:
        try:
            return self._client.run_on_scheduler(function)
        except Exception as error:
            return error

    def _differs(self, who: str, why: str) -> str:
        return f"--dask {self.address}: {who} would not give the same results: {why}; {CURE}"


def _require_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        if parts.scheme in SCHEMES and parts.hostname and parts.port:
            return
    except ValueError:  # the port is not a number
        pass
    raise OpdbError(
        f"--dask {address}: not the address of a Dask scheduler; it prints one, e.g. tcp://10.0.0.5:8786"
    )


CURE = "install there what is installed here"


def _line(error: BaseException) -> str:
    """An error from Dask in one line."""
    return " ".join(str(error).split()) or type(error).__name__


# -- in a worker

_open: dict[int, OrderedDict[bytes, Server]] = {}  # by thread
_lock = threading.Lock()


def _same(work: bytes) -> bytes:
    return work


def _facts(work: bytes) -> dict[str, str]:
    return dict(pickle.loads(work).facts())


def _answer(work: bytes, packed: bytes) -> tuple[str, Any]:
    """("answer", the job's answer), or ("error", "fault" or "differs", the reason that there is none)."""
    try:
        expected, job = pickle.loads(packed)
        with _lock:
            servers = _open.setdefault(threading.get_ident(), OrderedDict())
        if work not in servers:  # a worker that came later, or came back, has not been compared yet
            if why := difference(expected, _facts(work)):
                return (
                    "differs",
                    f"a worker (process {os.getpid()}) would not give the same results: {why}; {CURE}",
                )
            with _lock:
                servers[work] = pickle.loads(work).open()
                while len(servers) > KEPT:
                    servers.popitem(last=False)[1].close()
        servers.move_to_end(work)
        return "answer", servers[work].answer(job)
    except OpdbError as error:
        return "error", str(error)
    except Exception:
        return "fault", traceback.format_exc()


def _close(work: bytes) -> None:
    """Closes the servers that this worker's threads hold for a command."""
    with _lock:
        held = [servers.pop(work) for servers in _open.values() if work in servers]
    for server in held:
        server.close()
