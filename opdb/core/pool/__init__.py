"""Divides work over processes: here, or over machines with Dask.

    with open_pool(work, processes=4) as pool:
        for job, answer in pool.answers(jobs):
            ...

The answer to a job does not depend on the process that gives it, and a job whose process dies is done again by another.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from opdb.core.pool.work import DEATHS, Job, Pool, Server, Work

__all__ = ["DEATHS", "Job", "Pool", "Server", "Work", "open_pool"]


def open_pool(work: Work, processes: int = 1, dask: str | None = None) -> AbstractContextManager[Pool]:
    """A pool of ``processes`` on this machine; or of the workers of the Dask scheduler at ``dask``, e.g. tcp://10.0.0.5:8786.

    Raises MissingExtra without the extra 'dask'; OpdbError if the scheduler cannot be reached, has no workers,
    or has one whose ``facts`` differ from this machine's.
    """
    if dask is not None:
        from opdb.core.pool.cluster import Cluster

        return Cluster(work, dask)
    from opdb.core.pool.processes import Processes

    return Processes(work, processes)
