"""The catalogue of the checkout, its cases, and a database with a small run in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from opdb import migrate, settings
from opdb.catalog import Catalog
from opdb.conformance.cases import CaseSet, cases
from opdb.store import Store, read_catalog

OPS = sorted(p.stem for p in (settings.specs_folder() / "ops").glob("*.yaml"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument ``op`` runs for each op of the catalogue."""
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", OPS)


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return read_catalog(settings.specs_folder())


@pytest.fixture(scope="session")
def case_set(catalog: Catalog) -> Callable[[str], CaseSet]:
    """The cases of an op; worked out once in a process."""
    return lambda op: cases(catalog, op)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A database that holds the specs of the checkout."""
    url = f"sqlite:///{tmp_path / 'opdb.db'}"
    migrate.upgrade(url)
    made = Store(url)
    made.sync(settings.specs_folder())
    return made
