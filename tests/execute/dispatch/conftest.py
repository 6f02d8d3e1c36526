"""The vendor's libraries, if installed; makes the folder's helpers importable as modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.libraries import Libraries

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def cpu(libraries: Libraries) -> Iterator[Backend]:
    with Backend.open("CPU") as backend:
        yield backend


@pytest.fixture
def htp(libraries: Libraries) -> Iterator[Backend]:
    with Backend.open("HTP", "SM8650") as backend:
        yield backend
