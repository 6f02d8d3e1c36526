"""SIGKILL at random points of a sync: the old state or the new one, and the next run works."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opdb import migrate
from opdb.store import Store, read_catalog

KILLS = 50
#: Says when the imports are done, so that a kill hits the work and not the start of Python.
SYNC = """
import sys
from pathlib import Path
from opdb import migrate
from opdb.store import Store, check, load, sync, write
print("ready", flush=True)
if sys.argv[1] == "upgrade":
    migrate.upgrade(sys.argv[2])
else:
    Store(sys.argv[2]).sync(Path(sys.argv[3]), full=True)
"""


def start(*args: str) -> subprocess.Popen[str]:
    """A process that has imported all and begins its work."""
    process = subprocess.Popen([sys.executable, "-c", SYNC, *args], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def duration(*args: str) -> float:
    process = start(*args)
    began = time.monotonic()
    assert process.wait() == 0
    return time.monotonic() - began


def kill_after(seconds: float, *args: str) -> bool:
    """Whether the process was still at work when it was killed."""
    process = start(*args)
    time.sleep(seconds)
    process.kill()
    return process.wait() != 0


@pytest.mark.kill
def test_sync(tmp_db_url: str, specs: Path) -> None:
    migrate.upgrade(tmp_db_url)
    store = Store(tmp_db_url)
    path = specs / "ops/LayerNorm.yaml"
    texts = [path.read_text(), path.read_text().replace("0.001", "0.002")]
    states = []
    for text in texts:
        path.write_text(text)
        states.append(read_catalog(specs).hash)
    whole = max(duration("sync", tmp_db_url, str(specs)) for _ in range(2))
    seed = int(os.environ.get("OPDB_TEST_SEED", "20240607"))
    rng = random.Random(seed)
    killed, found = 0, set()
    for i in range(KILLS):
        path.write_text(texts[i % 2])
        killed += kill_after(rng.uniform(0, whole * 1.1), "sync", tmp_db_url, str(specs))
        catalog = store.load_catalog()
        assert catalog.hash == store.catalog_hash()
        assert catalog.hash in states
        found.add(catalog.hash == states[i % 2])
        if i % 5 == 0:
            assert store.sync(specs).hash == states[i % 2]
            assert store.load_catalog() == read_catalog(specs)
    assert migrate.check(tmp_db_url) == []
    assert killed >= KILLS // 3, f"only {killed} of {KILLS} hit the work (seed {seed})"


@pytest.mark.kill
def test_upgrade(tmp_path: Path) -> None:
    """The tables are all there or not at all."""
    rng = random.Random(7)
    whole = duration("upgrade", str(tmp_path / "first.db"))
    for i in range(10):
        path = tmp_path / f"{i}.db"
        kill_after(rng.uniform(0, whole * 1.1), "upgrade", str(path))
        migrate.upgrade(str(path))
        assert migrate.check(str(path)) == []
