"""The catalog of the repository's specs, read once per process, since that takes seconds."""

from __future__ import annotations

import functools
from pathlib import Path

from opdb.catalog.store import read_catalog
from opdb.spec.catalog import Catalog

SPECS = Path(__file__).parent.parent / "specs"


@functools.cache
def repository_catalog() -> Catalog:
    return read_catalog(SPECS)
