"""Fixtures and settings of all tests."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from hypothesis import settings

import opdb

#: `make sanitize` names the tree that must be under test; another opdb would make its pass worthless.
EXPECTED_TREE = os.environ.get("OPDB_EXPECT_TREE")
POSTGRES_URL = os.environ.get("OPDB_TEST_POSTGRES_URL")
NO_POSTGRES = "OPDB_TEST_POSTGRES_URL is not set; `tools/with-postgres pytest` sets it"

# The same examples on every run; HYPOTHESIS_PROFILE=random looks for new ones.
settings.register_profile("fixed", deadline=None, derandomize=True, database=None)
settings.register_profile("random", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_configure(config: pytest.Config) -> None:
    if EXPECTED_TREE and not Path(opdb.__file__).is_relative_to(EXPECTED_TREE):
        raise pytest.UsageError(f"the tests import opdb from {opdb.__file__}, not from {EXPECTED_TREE}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folders native and executorch carry the marker of their name."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in ("native", "executorch"):
            item.add_marker(folder)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"opdb: {Path(opdb.__file__).parent}", f"postgres: {POSTGRES_URL or NO_POSTGRES}"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def tmp_db_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of the test's own; once per database system."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'opdb.db'}"
    elif POSTGRES_URL is None:
        pytest.skip(NO_POSTGRES)
    else:
        yield from _postgres_database(POSTGRES_URL)


def _postgres_database(server: str) -> Iterator[str]:
    name = f"opdb_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        connection.execute(sqlalchemy.text(f"CREATE DATABASE {name}"))
    try:
        yield sqlalchemy.make_url(server).set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text(f"DROP DATABASE {name} WITH (FORCE)"))
