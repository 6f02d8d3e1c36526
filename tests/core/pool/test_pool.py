"""Pools of processes and of Dask workers: every job is answered once, whichever process dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.install import DISTRIBUTION
from opdb.core.pool import DEATHS, Pool, cluster, open_pool

from ...dask_cluster import (
    ALLOWED_DEATHS,
    dask_worker,
    kill_a_worker,
    local_cluster,
    path_with_tests,
    scheduler,
)
from .echo import Number, Squares

pytestmark = pytest.mark.slow

EXPECTED = {n: n * n for n in range(40) if n != 13}


@pytest.fixture(scope="module")
def workers() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, local_cluster() as made:
        patch.setattr(cluster, "WORKERS", 120.0)  # killed workers come back late where other work runs
        yield made


@pytest.fixture(params=["processes", "dask"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The arguments to open a pool with."""
    monkeypatch.setenv("PYTHONPATH", path_with_tests())
    if request.param == "processes":
        return {"processes": 2}
    return {"dask": request.getfixturevalue("workers").scheduler_address}


def squares(pool: Pool, jobs: Iterator[Number]) -> tuple[dict[int, int], set[int]]:
    """The answers, and the pids that computed them; checks that none comes twice."""
    found, pids = {}, set()
    for job, (square, pid) in pool.answers(jobs):
        assert job.value not in found
        found[job.value] = square
        pids.add(pid)
    return found, pids


def test_every_job_is_answered_once(where: dict[str, Any]) -> None:
    with open_pool(Squares(seconds=0.02), **where) as pool:
        for _ in range(2):  # a pool can be used again
            found, pids = squares(pool, map(Number, EXPECTED))
            assert found == EXPECTED and len(pids) == 2
        assert squares(pool, iter(())) == ({}, set())
    assert os.getpid() not in pids


def test_jobs_are_read_lazily(where: dict[str, Any]) -> None:
    read: list[int] = []

    def jobs() -> Iterator[Number]:
        for n in EXPECTED:
            read.append(n)
            yield Number(n)

    with open_pool(Squares(), **where) as pool:
        for done, _ in enumerate(pool.answers(jobs()), 1):
            assert len(read) <= done + 2 * (1 + cluster.AHEAD)


@pytest.mark.kill
def test_a_job_that_kills_its_process_is_retried(where: dict[str, Any], tmp_path: Path) -> None:
    with open_pool(Squares(), **where) as pool:
        jobs = (Number(n, DEATHS - 1 if n == 7 else 0, str(tmp_path)) for n in EXPECTED)
        found, _ = squares(pool, jobs)
    assert found == EXPECTED
    assert len(list(tmp_path.iterdir())) == DEATHS - 1


@pytest.mark.kill
def test_a_job_that_kills_every_process_is_one_clear_error(where: dict[str, Any], tmp_path: Path) -> None:
    with (
        pytest.raises(OpdbError, match=r"ended at number 7.*what was answered before is kept"),
        open_pool(Squares(), **where) as pool,
    ):
        squares(pool, (Number(n, 99 if n == 7 else 0, str(tmp_path)) for n in EXPECTED))


@pytest.mark.kill
def test_a_job_dropped_by_dask_runs_once_more_alone(workers: Any, tmp_path: Path) -> None:
    """Dask also counts a death against jobs that were only queued at the worker, so they must not be blamed for it."""
    deaths = ALLOWED_DEATHS + 1
    with open_pool(Squares(), dask=workers.scheduler_address) as pool:
        found, _ = squares(pool, (Number(n, deaths if n == 7 else 0, str(tmp_path)) for n in EXPECTED))
    assert found == EXPECTED
    assert len(list(tmp_path.iterdir())) == deaths


def test_a_jobs_error_is_its_answer_and_a_fault_is_raised(where: dict[str, Any]) -> None:
    with open_pool(Squares(), **where) as pool:
        ((_, answer),) = pool.answers(iter([Number(-4)]))
        assert isinstance(answer, OpdbError) and str(answer) == "-4 is below 0"
        with pytest.raises(RuntimeError, match=r"at number 13:(.|\n)*ZeroDivisionError: thirteen"):
            list(pool.answers(iter([Number(13)])))


@pytest.mark.kill
def test_a_worker_killed_from_outside_is_replaced(workers: Any) -> None:
    with open_pool(Squares(seconds=0.05), dask=workers.scheduler_address) as pool:
        found: dict[int, int] = {}
        for job, (square, _) in pool.answers(map(Number, EXPECTED)):
            assert job.value not in found
            found[job.value] = square
            if len(found) in (5, 20):
                kill_a_worker(workers)
    assert found == EXPECTED


def test_a_missing_scheduler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT", 1.0)
    with pytest.raises(
        OpdbError, match=r"--dask tcp://127.0.0.1:9: no Dask scheduler answers there"
    ) as caught:
        open_pool(Squares(), dask="tcp://127.0.0.1:9")
    assert "\n" not in str(caught.value) and "dask scheduler" in str(caught.value)


@pytest.mark.parametrize("address", ["nonsense://x:1", "127.0.0.1:8786", "tcp://host", "tcp://host:none", ""])
def test_invalid_addresses_are_rejected(address: str) -> None:
    pytest.importorskip("distributed")
    with pytest.raises(OpdbError, match=f"--dask {address}: not the address of a Dask scheduler"):
        open_pool(Squares(), dask=address)


def test_missing_dask_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtra, match=r"pip install 'qnn-opdb\[dask\]'"):
        open_pool(Squares(), dask="tcp://127.0.0.1:9")


def test_a_scheduler_without_workers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WORKERS", 1.0)
    with (
        local_cluster(0) as empty,
        pytest.raises(OpdbError, match="the scheduler has no workers; start some"),
    ):
        open_pool(Squares(), dask=empty.scheduler_address)


@pytest.mark.kill
def test_losing_all_workers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "WORKERS", 2.0)
    with (
        local_cluster(1) as one,
        open_pool(Squares(seconds=0.05), dask=one.scheduler_address) as pool,
        pytest.raises(OpdbError, match="it has had no worker for 2 s; what was answered before is kept"),
    ):
        for done, _ in enumerate(pool.answers(map(Number, EXPECTED))):
            if done == 3:
                one.scale(0)


@pytest.mark.kill
def test_a_killed_scheduler_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    with (
        scheduler(file) as (process, address),
        dask_worker(address),
        open_pool(Squares(0.05), dask=address) as pool,
    ):
        with pytest.raises(OpdbError, match=f"--dask {address}: .*; what was answered before is kept"):
            for done, _ in enumerate(pool.answers(map(Number, EXPECTED))):
                if done == 3:
                    process.kill()
        assert done < len(EXPECTED) - 1


def test_workers_with_another_opdb_are_refused(tmp_path: Path) -> None:
    """The metadata of the other version is found first."""
    other = tmp_path / "qnn_opdb-9.9.dist-info"
    other.mkdir()
    (other / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 9.9\n")
    path = os.pathsep.join([str(tmp_path), path_with_tests()])
    with (
        local_cluster(0) as made,
        dask_worker(made.scheduler_address, PYTHONPATH=path),
        pytest.raises(OpdbError, match=r"the worker tcp://.*: opdb is 9\.9 there and .* here"),
    ):
        open_pool(Squares(), dask=made.scheduler_address)


def test_workers_with_other_libraries_are_refused(workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDB_TEST_FACT", "new")
    with pytest.raises(
        OpdbError, match="would not give the same results: the fact is same there and new here"
    ):
        open_pool(Squares(), dask=workers.scheduler_address)


def test_a_different_worker_joining_late_is_refused(workers: Any) -> None:
    """The refusal comes with its first answer."""
    with (
        open_pool(Squares(seconds=0.1), dask=workers.scheduler_address) as pool,
        dask_worker(workers.scheduler_address, OPDB_TEST_FACT="other") as late,
        pytest.raises(OpdbError, match=r"a worker .*the fact is other there and same here"),
    ):
        for _ in pool.answers(map(Number, range(1000, 1600))):
            assert late.poll() is None
