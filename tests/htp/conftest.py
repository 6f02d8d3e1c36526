"""HTP's library in a process of its own, for the tests that run what is lowered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opdb.probe.client import VendorWorker

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def htp() -> Iterator[Any]:
    from htp_module import HTP, Htp  # with PyTorch, which most tests here do without

    with VendorWorker("HTP", HTP.soc, log_level="error") as worker:
        yield Htp(worker)
