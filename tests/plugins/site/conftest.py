"""The site as `opdb site` writes it, once for all tests; Chromium."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "core" / "pages"), str(TESTS / "property")]


def run(*arguments: str, database: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`opdb ARGUMENTS` with a database of its own."""
    return subprocess.run(
        [sys.executable, "-m", "opdb", *arguments],
        env={**os.environ, "OPDB_URL": f"sqlite:///{database}", **environment},
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("database") / "opdb.db"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Path:
    folder = tmp_path_factory.mktemp("written") / "site"
    done = run("site", "-o", str(folder), database=database)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    import browser

    with browser.opened() as found:
        yield found
