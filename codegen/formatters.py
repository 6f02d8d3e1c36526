"""Formats Python, C, and C++ text with the pinned wheels, many files in one process.

The bytes of generated files depend on the formatters, so other versions are refused: they would show up as
drift in files that nobody changed.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path

from opdb.codegen.artifact import Artifact
from opdb.core.errors import OpdbError

#: The versions of the wheels, as pinned in pyproject.toml.
VERSIONS = {"ruff": "0.17.5", "clang-format": "23.1.5"}
LINE_LENGTH = 110
STYLE = Path(__file__).with_name("clang-format.yaml")
SUFFIXES = {"python": ".py", "c": ".c", "cpp": ".cpp"}


def format_all(artifacts: Sequence[Artifact]) -> list[str]:
    """The formatted texts of ``artifacts`` in order; languages other than Python, C, and C++ are unchanged.

    Raises OpdbError if a formatter is missing, has another version, or refuses a text.
    """
    texts = [a.text for a in artifacts]
    for language, command in (("python", _ruff), ("c", _clang_format), ("cpp", _clang_format)):
        chosen = [i for i, a in enumerate(artifacts) if a.language == language]
        if not chosen:
            continue
        with tempfile.TemporaryDirectory(prefix="opdb-format-") as folder:
            files = {i: Path(folder, f"{i:05}{SUFFIXES[language]}") for i in chosen}
            for i, file in files.items():
                file.write_text(texts[i], encoding="utf-8", newline="\n")
            names = {f.name: artifacts[i].path for i, f in files.items()}
            _run(command(folder, list(files.values())), names, folder)
            for i, file in files.items():
                texts[i] = file.read_text(encoding="utf-8")
    return texts


@cache
def settings() -> str:
    """The formatters' versions and settings as JSON."""
    return json.dumps([VERSIONS, LINE_LENGTH, STYLE.read_text(encoding="utf-8")])


def check_versions() -> None:
    """Raises OpdbError unless both formatters are installed at the pinned versions."""
    for wheel, needed in VERSIONS.items():
        try:
            found = metadata.version(wheel)
        except metadata.PackageNotFoundError:
            found = "none"
        if found != needed:
            raise OpdbError(
                f"generation needs {wheel} {needed}, installed is {found}; "
                f"install it with: pip install '{wheel}=={needed}'"
            )


def _ruff(folder: str, files: list[Path]) -> list[str]:
    check_versions()
    from ruff import find_ruff_bin  # type: ignore[import-untyped]

    return [find_ruff_bin(), "format", "--isolated", "--no-cache", "--target-version", "py311",
            "--line-length", str(LINE_LENGTH), folder]  # fmt: skip


def _clang_format(folder: str, files: list[Path]) -> list[str]:
    check_versions()
    from clang_format import get_executable  # type: ignore[import-untyped]

    return [get_executable("clang-format"), f"--style=file:{STYLE}", "-i", *map(str, files)]


def _run(command: list[str], names: dict[str, str], folder: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().replace(folder + "/", "")
        for name, path in names.items():
            reason = reason.replace(name, path)
        raise OpdbError(f"the formatter refused generated text: {reason}")
