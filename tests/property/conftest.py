"""The helpers beside this file, and the C helpers of tests/native."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "native")]
SPECS = Path(__file__).parents[2] / "specs"
#: Slow tests ask each op in `make sweep`, and in `make test` those with a C kernel and every sixteenth of the others.
EVERY = 16


@pytest.fixture(scope="session")
def native_module(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The generated C and the runtime under UBSan: ffi and lib as opdb.runtime._native has them."""
    import sanitized

    return sanitized.build(tmp_path_factory.mktemp("undefined"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test marked ``slow_by_op`` is part of the sweep for most ops."""
    seen: dict[str, int] = {}
    for item in items:
        if item.get_closest_marker("slow_by_op") is not None:
            name = next(iter(item.callspec.params.values()))  # type: ignore[attr-defined]
            place = seen[item.originalname] = seen.get(item.originalname, -1) + 1  # type: ignore[attr-defined]
            kernel = has_kernel(name)
            if place % EVERY and not kernel:
                item.add_marker(pytest.mark.sweep)


@cache
def has_kernel(op: str) -> bool:
    return "\nkernel:" in (SPECS / "ops" / f"{op}.yaml").read_text(encoding="utf-8")
