"""Errors for a missing compiler or emulator; these tests need neither."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.measure.conformance.executors import USUAL, open_executors
from opdb.plugins.hexagon import check_compiler, emulator
from opdb.plugins.hexagon.tools import EMULATOR
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(EMULATOR, raising=False)
    return tmp_path


def written(file: Path, text: str) -> Path:
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return file


def test_missing_compiler_tools_are_named(programs: Path, catalog: Catalog) -> None:
    for tool in ("clang-19", "llvm-ar-19"):
        written(programs / tool, "")
    with pytest.raises(OpdbError, match=r"ld\.lld-19 is not on PATH; install them \(Debian: apt-get install"):
        check_compiler()
    with pytest.raises(OpdbError, match=r"ld\.lld-19 is not on PATH"):
        next(open_executors("hexagon", (), catalog))
    assert "hexagon" not in USUAL
    written(programs / "ld.lld-19", "")
    check_compiler()


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("qemu-hexagon version 7.2.19 (Debian 1:7.2)", "qemu-hexagon version 7.2.19, which cannot run"),
        ("something else", "no qemu-hexagon, which cannot run"),
    ],
)
def test_an_outdated_emulator_is_refused(programs: Path, said: str, words: str) -> None:
    written(programs / "qemu-hexagon", f"echo '{said}'")
    with pytest.raises(OpdbError, match=words):
        emulator()


def test_the_emulator_is_found_on_path_or_by_variable(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        OpdbError, match=r"no emulator of Hexagon: qemu-hexagon is not on PATH; install QEMU 10"
    ):
        emulator()
    plain = written(programs / "qemu-hexagon-static", "echo qemu-hexagon version 10.0.2")
    assert emulator() == str(plain)
    monkeypatch.setenv(EMULATOR, str(programs / "none"))
    with pytest.raises(OpdbError, match=r"none is not on PATH"):
        emulator()
    other = written(programs / "other", "echo 'qemu-hexagon version 11.1.3 (Debian)'")
    monkeypatch.setenv(EMULATOR, str(other))
    assert emulator() == str(other)
