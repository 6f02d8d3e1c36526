"""HTP's library in a separate process, for tests that run lowered graphs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from opdb.execute.libraries.client import VendorWorker

sys.path.insert(0, str(Path(__file__).parent))


@contextmanager
def _opened(name: str) -> Iterator[Any]:
    import htp_module  # imports PyTorch, which most tests here do without

    target = getattr(htp_module, name)
    with VendorWorker("HTP", target.soc, log_level="error") as worker:
        yield htp_module.Htp(worker, target)


@pytest.fixture(scope="module")
def htp() -> Iterator[Any]:
    with _opened("HTP") as opened:
        yield opened


@pytest.fixture(scope="module")
def v68() -> Iterator[Any]:
    with _opened("V68") as opened:
        yield opened
