"""The C of runtime/src as shared libraries, built once per test process."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import pytest

# The helpers beside this file import each other; so does the program that runs under AddressSanitizer.
sys.path.insert(0, str(Path(__file__).parent))

from c_library import UNDEFINED, build_library


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library as shipped: optimized, no sanitizer."""
    return ctypes.CDLL(str(build_library(tmp_path_factory.mktemp("kernels"))))


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The library with checked.h exported, under UBSan: undefined behavior ends the process."""
    exports = Path(__file__).with_name("checked_exports.c")
    return ctypes.CDLL(str(build_library(tmp_path_factory.mktemp("checked"), UNDEFINED, [exports])))
