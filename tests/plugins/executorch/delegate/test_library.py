"""The backend is compiled once for each state of its sources, and a missing prerequisite is one error."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.plugins.executorch.delegate import library

pytestmark = [pytest.mark.slow, pytest.mark.executorch]

EMPTY = 'extern "C" void opdb_nothing() {}\n'


def test_a_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(OpdbError, match=r"no C\+\+ compiler: 'g\+\+' is not on PATH; install one"):
        library.build()


def test_the_backend_is_compiled_once_per_source_state(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "sources"
    source.mkdir()
    (source / "one.cpp").write_text(EMPTY, encoding="utf-8")
    monkeypatch.setattr(library, "_folder", lambda: source)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first = library.build()
    changed = first.stat().st_mtime_ns
    assert library.build() == first and first.stat().st_mtime_ns == changed
    assert first.is_relative_to(tmp_path / "cache" / "opdb" / "executorch-backend")
    (source / "one.cpp").write_text(EMPTY.replace("nothing", "other"), encoding="utf-8")
    assert library.build() != first


def test_the_first_compiler_error_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text("int f( {\n", encoding="utf-8")
    monkeypatch.setattr(library, "_folder", lambda: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(OpdbError, match=r"one\.cpp: the backend for ExecuTorch was not built: .*one\.cpp:1"):
        library.build()
    assert not (tmp_path / "cache").exists()
