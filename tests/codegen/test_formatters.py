"""The pinned formatters, and the errors if others are installed."""

from __future__ import annotations

import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from opdb.codegen import formatters
from opdb.codegen.artifact import Artifact, Language
from opdb.core.errors import OpdbError

ROOT = Path(__file__).parents[2]


def artifact(name: str, text: str, language: Language) -> Artifact:
    return Artifact(f"generated/{name}", text, ("specs/ops/Relu.yaml",), language)


def test_each_language_is_formatted_in_order() -> None:
    given = [
        artifact("a.py", "x = {'a':1}\n", "python"),
        artifact("b.h", "int  f( void ){return 1 ;}\n", "c"),
        artifact("c.md", "*  x\n", "markdown"),
        artifact("d.py", "y=2\n", "python"),
    ]
    once = formatters.format_all(given)
    assert once == ['x = {"a": 1}\n', "int f(void) { return 1; }\n", "*  x\n", "y = 2\n"]
    again = [Artifact(a.path, t, a.inputs, a.language) for a, t in zip(given, once, strict=True)]
    assert formatters.format_all(again) == once


def test_invalid_python_is_named() -> None:
    with pytest.raises(OpdbError, match=r"refused generated text: .*generated/python/bad\.py"):
        formatters.format_all([artifact("python/bad.py", "def\n", "python")])


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatters, "VERSIONS", {"ruff": "0.1.0"})
    installed = metadata.version("ruff")
    with pytest.raises(
        OpdbError, match=rf"needs ruff 0\.1\.0, installed is {installed}; .*pip install 'ruff==0\.1\.0'"
    ):
        formatters.format_all([artifact("a.py", "x=1\n", "python")])


def test_a_missing_formatter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formatters, "VERSIONS", {"no-such-formatter": "1.0"})
    with pytest.raises(OpdbError, match=r"needs no-such-formatter 1\.0, installed is none"):
        formatters.check_versions()


def test_versions_match_pyproject() -> None:
    pinned = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {f"{wheel}=={version}" for wheel, version in formatters.VERSIONS.items()} <= set(pinned)


def test_the_c_style_matches_the_repository() -> None:
    def settings(path: Path) -> set[str]:
        return {
            line
            for line in path.read_text().splitlines()
            if line and not line.startswith(("#", "CommentPragmas"))
        }

    assert settings(formatters.STYLE) == settings(ROOT / ".clang-format")
