"""The forwarding library, compiled from its source, and a prepared environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import opdb.runtime
from opdb.plugins.executorch import env

SOURCES = sorted((Path(str(opdb.runtime.__file__)).parent / "forward").glob("*.c"))
FLAGS = [
    "-std=c99",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-soname,libQnnHtp.so",
]


@pytest.fixture(scope="session")
def forwarding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiles it with warnings as errors, otherwise like setuptools."""
    built = tmp_path_factory.mktemp("forward") / "libopdb_qnn_forward.so"
    subprocess.run([os.environ.get("CC", "gcc"), *FLAGS, *map(str, SOURCES), "-o", str(built)], check=True)
    return built


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory, forwarding: Path) -> env.Environment:
    return env.prepare(tmp_path_factory.mktemp("executorch") / "sdk", forwarding)
