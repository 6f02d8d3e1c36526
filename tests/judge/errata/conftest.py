"""The frozen mini specs, to which tests add records, and a database to store them in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store

MINI = Path(__file__).parents[2] / "data" / "mini"


@pytest.fixture
def mini_specs(tmp_path: Path) -> Path:
    """A copy of the mini specs that the test may change."""
    return Path(shutil.copytree(MINI, tmp_path / "specs"))


@pytest.fixture
def store(tmp_db_url: str) -> Store:
    """An empty catalog, once per database system."""
    migrate.upgrade(tmp_db_url)
    return Store(tmp_db_url)
