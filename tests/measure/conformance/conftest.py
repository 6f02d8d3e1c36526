"""Parametrizes tests by op, and provides a database with the specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store
from opdb.core import settings
from opdb.spec.catalog import Catalog

OPS = sorted(p.stem for p in (settings.specs_folder() / "ops").glob("*.yaml"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test with an argument ``op`` for each op of the catalog."""
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", OPS)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A database with the specs of the checkout."""
    url = f"sqlite:///{tmp_path / 'opdb.db'}"
    migrate.upgrade(url)
    made = Store(url)
    made.sync(settings.specs_folder())
    return made


#: The ops of the database that reports are made from.
REPORTED = ("LayerNorm", "Relu")


@pytest.fixture(scope="session")
def filled(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A database with the results of two ops on our own executors."""
    from opdb.measure.conformance.run import run

    url = f"sqlite:///{tmp_path_factory.mktemp('report') / 'opdb.db'}"
    migrate.upgrade(url)
    store = Store(url)
    store.sync(settings.specs_folder())
    run(catalog, store, REPORTED, ("python", "c"))
    return store
