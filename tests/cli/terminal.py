"""What a command shows on a terminal, beside what it writes into a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from rich.cells import cell_len

from .. import forked_command

ROOT = Path(__file__).parents[2]
WIDTHS = (80, 100, 120, 200)
#: Colors, and what a progress bar does to the cursor.
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOR = re.compile(r"\x1b\[(?!0m)[0-9;]*m")
LEFT_OUT = re.compile(r"^\d+ more columns?, --wide or --columns A,B: ((?:.|\n(?=\S))*)", re.MULTILINE)


def on_terminal(
    columns: int, database: Path, *args: str, cwd: Path = ROOT, code: int = 0, **env: str
) -> tuple[str, str]:
    """(as it is, without colors): what ``opdb`` with these arguments shows on a terminal of so many columns."""
    variables = _variables(database) | {"TERM": "xterm-256color"} | env
    with forked_command.Terminal(columns) as terminal:
        done = forked_command.run([*args], variables, cwd, None, 300, terminal)
    assert done.returncode == code, terminal.text
    # a progress bar draws over itself
    lines = (line.rpartition("\r")[2] for line in terminal.text.split("\n"))
    return terminal.text, ESCAPES.sub("", "\n".join(lines))


def piped(database: Path, *args: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return forked_command.run([*args], _variables(database), cwd, None, 300)


def _variables(database: Path) -> dict[str, str]:
    left_out = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | {"OPDB_URL": f"sqlite:///{database}", "PYTHONPATH": os.pathsep.join(sys.path)}


def words(text: str) -> set[str]:
    return set(text.split())


def check_shape(text: str, columns: int, known: set[str]) -> None:
    """Every line fits, but for one word that is longer than the terminal, and every word is one of ``known``."""
    for line in text.split("\n"):
        whole = cell_len(line.strip()) > columns and len(line.split()) == 1
        assert cell_len(line) <= columns or whole, f"{cell_len(line)} of {columns}: {line}"
    cut = sorted(words(text) - known)
    assert not cut, f"not in the pipe's output: {cut[:20]}\n{text}"
