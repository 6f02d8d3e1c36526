"""The helpers beside this file, the C helpers of tests/native, and the catalogue of the repository's specs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from opdb.catalog import Catalog
from opdb.store import read_catalog

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "native")]
SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return read_catalog(SPECS)
