"""The helpers in this folder, and the C helpers of tests/runtime/native."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "runtime" / "native")]


@pytest.fixture(scope="session")
def native_module(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Any:
    """The generated C and the runtime under UBSan: ffi and lib as in opdb.runtime._native.

    With `-n` the processes of one run share the library compiled by the first.
    """
    import sanitized

    of_run = (
        tmp_path_factory.getbasetemp() if worker_id == "master" else tmp_path_factory.getbasetemp().parent
    )
    folder = of_run / "undefined"
    folder.mkdir(exist_ok=True)
    return sanitized.build(folder)
