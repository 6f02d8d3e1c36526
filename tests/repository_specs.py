"""The catalogue of the repository's specs, read once in a process: it takes seconds."""

from __future__ import annotations

import functools
from pathlib import Path

from opdb.spec.catalog import Catalog
from opdb.store import read_catalog

SPECS = Path(__file__).parent.parent / "specs"


@functools.cache
def repository_catalog() -> Catalog:
    return read_catalog(SPECS)
