"""The Hexagon programs run by these tests, compiled once."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opdb.plugins.hexagon import Server, emulator
from opdb.plugins.packages import c_library
from opdb.plugins.packages.hexagon_executor import program
from opdb.spec.catalog import Catalog

HERE = Path(__file__).parent
#: The folder of the program with all ops.
KEPT = HERE.parents[2] / "build" / "hexagon"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.path.name != "test_tools.py":
            item.add_marker("hexagon")
            if "OPDB_TEST_HEXAGON" not in os.environ:
                item.add_marker(pytest.mark.skip(reason="tools/with-hexagon sets OPDB_TEST_HEXAGON"))


@pytest.fixture(scope="session")
def server(catalog: Catalog) -> Iterator[Server]:
    """All ops with a kernel, under QEMU."""
    with Server([emulator(), str(program(catalog, KEPT))]) as running:
        yield running


@pytest.fixture(scope="session")
def built(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> c_library.Library:
    """The library made by `opdb build Softmax:f16,f32 --target hexagon`."""
    needed = {"Softmax": frozenset({"f16", "f32"})}
    made = c_library.write(catalog, needed, tmp_path_factory.mktemp("hexagon") / "lib", target="hexagon")
    c_library.build(made)
    return made


@pytest.fixture(scope="session")
def run_program(built: c_library.Library) -> Callable[[str, bytes], bytes]:
    """Compiles a C file of this folder with the Makefile of ``built``, and runs it with the given input."""

    def run(name: str, given: bytes = b"") -> bytes:
        (built.folder / name).write_bytes((HERE / name).read_bytes())
        made = built.folder / name.replace(".c", ".elf")
        subprocess.run(["make", "--silent", "-C", built.folder, made.name], check=True)
        done = subprocess.run([emulator(), made], input=given, capture_output=True, timeout=300, check=False)
        assert done.returncode == 0, f"{name} ended with {done.returncode}: {done.stderr.decode()}"
        return done.stdout

    return run
