"""The modules of modules.py and of the files for each family of operators."""

from __future__ import annotations

from typing import Any

import pytest
from arithmetic import ARITHMETIC_CASES
from conversions import MORE_CASES
from core_modules import CORE_CASES
from indexing import INDEX_CASES
from modules import BOUNDS, Case
from modules import CASES as DIRECT
from windows import WINDOW_CASES

__all__ = ["BOUNDS", "CASES", "Case"]
CASES = (*DIRECT, *CORE_CASES, *INDEX_CASES, *MORE_CASES, *ARITHMETIC_CASES, *WINDOW_CASES)


def one_in(each: int) -> list[Any]:
    """All cases as parameters: `make test` runs one in ``each``, and those that some backend refuses.

    `make breadth` runs the others.  test_library_numbers.py always runs every case on both backends.
    """
    found = []
    for i, case in enumerate(CASES):
        usual = i % each == 0 or len(case.backends) < len(BOUNDS)
        found.append(pytest.param(case, id=case.id, marks=[] if usual else [pytest.mark.breadth]))
    return found
