"""Work divided over processes: here, or over machines with Dask.

    with open_pool(work, processes=4) as pool:
        for job, answer in pool.answers(jobs):
            ...

Which process answers a job does not change the answer, and a job whose process dies is done again by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

#: How many processes may end at one job before it is given up.
DEATHS = 3


class Job(Protocol):
    """One request, which can be pickled.  ``name`` is for messages."""

    @property
    def name(self) -> str: ...


class Server(Protocol):
    """What a process keeps from job to job.  It is used by one thread at a time."""

    def answer(self, job: Any) -> Any: ...

    def close(self) -> None: ...


class Work(Protocol):
    """What all jobs have in common; can be pickled."""

    def open(self) -> Server: ...

    def facts(self) -> Mapping[str, str]:
        """What the answers depend on at the place where this is called: name -> version or SHA-256."""
        ...


class Pool(Protocol):
    """Processes that are there until the end of the ``with``."""

    def answers(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Each job and its answer, as they come; an OpdbError of the job is its answer.

        ``jobs`` is read only as far as there are processes to do them.  Raises OpdbError when DEATHS processes
        ended at one job or none is left, RuntimeError for a fault of opdb.
        """
        ...


def open_pool(work: Work, processes: int = 1, dask: str | None = None) -> AbstractContextManager[Pool]:
    """``processes`` of this machine; or the workers of the Dask scheduler at ``dask``, e.g. tcp://10.0.0.5:8786.

    Raises MissingExtra without the extra 'dask'; OpdbError when the scheduler cannot be reached, has no workers,
    or has one whose ``facts`` are not those of this machine.
    """
    if dask is not None:
        from opdb.core.pool.cluster import Cluster

        return Cluster(work, dask)
    from opdb.core.pool.processes import Processes

    return Processes(work, processes)
