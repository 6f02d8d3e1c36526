"""The helpers beside this file, the C helpers of tests/native, and the catalogue of the repository's specs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from opdb.catalog import Catalog
from opdb.store import read_catalog

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "native")]
SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return read_catalog(SPECS)


@pytest.fixture(scope="session")
def native_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The generated C and the runtime under UBSan: ffi and lib as opdb.runtime._native has them."""
    import sanitized

    return sanitized.build(tmp_path_factory.mktemp("undefined"))
