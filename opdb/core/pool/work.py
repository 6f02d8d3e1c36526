"""The interfaces of a pool: jobs, the servers that answer them, and the pool itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

#: The number of processes that end at one job before it is given up.
DEATHS = 3


class Job(Protocol):
    """One request, which can be pickled.  ``name`` is for messages."""

    @property
    def name(self) -> str: ...


class Server(Protocol):
    """The state that a process keeps from job to job.  It is used by one thread at a time."""

    def answer(self, job: Any) -> Any: ...

    def close(self) -> None: ...


class Work(Protocol):
    """The common part of all jobs; can be pickled."""

    def open(self) -> Server: ...

    def facts(self) -> Mapping[str, str]:
        """The facts on which answers depend at the place where this is called: name -> version or SHA-256."""
        ...


class Pool(Protocol):
    """Processes that live until the end of the ``with``."""

    def answers(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Each job and its answer, as they come; an OpdbError of the job is its answer.

        ``jobs`` is read only as far as there are processes to do them.  Raises OpdbError when DEATHS processes
        ended at one job or none is left, RuntimeError for a fault of opdb.
        """
        ...
