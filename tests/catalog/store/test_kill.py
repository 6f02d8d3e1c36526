"""SIGKILL at random points of a sync leaves the old state or the new one, and the next run works."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store, read_catalog

pytestmark = pytest.mark.slow

#: On a server more of the time goes by outside the process that is killed.
KILLS = {"sqlite": 50, "postgresql": 20}
SEED = int(os.environ.get("OPDB_TEST_SEED", "20240607"))


def start(work: Callable[[], object]) -> int:
    """A child process that runs only ``work``, with everything imported, so that a kill hits the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def duration(work: Callable[[], object]) -> float:
    began = time.monotonic()
    assert os.waitpid(start(work), 0)[1] == 0
    return time.monotonic() - began


def kill_after(seconds: float, work: Callable[[], object]) -> bool:
    """True if the process was still working when it was killed."""
    child = start(work)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert status == 0 or os.WIFSIGNALED(status), "the work failed by itself"
    return os.WIFSIGNALED(status)


@pytest.mark.kill
def test_a_killed_sync_leaves_a_whole_state(tmp_db_url: str, specs: Path) -> None:
    """Alternates between syncs of one changed file and of all files."""
    migrate.upgrade(tmp_db_url)
    store = Store(tmp_db_url)
    path = specs / "ops/LayerNorm.yaml"
    texts = [path.read_text(), path.read_text().replace("0.001", "0.002")]
    states, whole = [], {}
    for i, text in enumerate([*texts, texts[0]]):
        path.write_text(text)
        states.append(read_catalog(specs).hash)
        whole[i == 1] = duration(lambda i=i: Store(tmp_db_url).sync(specs, full=i == 1))  # type: ignore[misc]
    rng = random.Random(SEED)
    killed, tries, new = 0, 0, 0
    while killed < KILLS[store.database.url.get_backend_name()]:
        tries += 1
        full = tries % 3 == 0
        path.write_text(texts[tries % 2])
        work = lambda full=full: Store(tmp_db_url).sync(specs, full=full)  # noqa: E731
        if kill_after(rng.uniform(0, whole[full]), work):
            killed += 1
        else:  # the machine is faster than it was
            whole[full] *= 0.9
        catalog = store.load_catalog()
        assert catalog.hash == store.catalog_hash()
        assert catalog.hash in states
        new += catalog.hash == states[tries % 2]
        if tries % 4 == 0:  # the next run works
            assert store.sync(specs).hash == states[tries % 2] == store.load_catalog().hash
    assert migrate.check(tmp_db_url) == []
    assert 0 < new < tries, f"the kills never left both states ({killed} in {tries}, OPDB_TEST_SEED={SEED})"


@pytest.mark.kill
def test_a_killed_upgrade_leaves_all_tables_or_none(tmp_path: Path) -> None:
    """The next upgrade completes the tables."""
    rng = random.Random(SEED)
    whole = duration(lambda: migrate.upgrade(str(tmp_path / "first.db")))
    for i in range(8):
        path = str(tmp_path / f"{i}.db")
        kill_after(rng.uniform(0, whole * 1.1), lambda path=path: migrate.upgrade(path))  # type: ignore[misc]
        migrate.upgrade(path)
        assert migrate.check(path) == []


def test_concurrent_creations_wait_for_each_other(tmp_db_url: str, specs: Path) -> None:
    """Several processes create and fill one database together."""

    def work() -> None:
        migrate.upgrade(tmp_db_url)
        Store(tmp_db_url).sync(specs)

    children = [start(work) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0, 0]
    assert Store(tmp_db_url).load_catalog() == read_catalog(specs)
