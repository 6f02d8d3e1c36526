"""Pages as programs: their files are written, their commands run, their output compared.

A block with a file name after its language (```` ```python model.py ````) is a file.  A block ```` ```console ````
is a session: lines after ``$`` run in bash, in page order and in one folder; the lines below each are its
standard output, with ``...`` for parts that vary between runs.  A command exits with 0 unless ``$ echo $?`` comes next.
Only `make breadth` runs a block ```` ```console breadth ````, in the same order.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import forked_command

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Characters with a meaning in bash.
SHELL = re.compile(r"[|&;<>$`*?\\\n~{}#]")
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word behind it (a file's name, ``breadth`` or ''), and its text."""

    kind: str
    name: str
    text: str

    @property
    def is_file(self) -> bool:
        return bool(self.name) and self.kind != "console"


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in BLOCK.findall(page.read_text(encoding="utf-8"))]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a session, each with the output that the page shows."""
    return iter(COMMAND.findall(block.text))


def prints(done: subprocess.CompletedProcess[str], expected: str) -> bool:
    """True if a page shows this output, or what a terminal shows: a command's notes before or after its output."""
    shown = (done.stdout, done.stderr + done.stdout, done.stdout + done.stderr)
    check = doctest.OutputChecker().check_output
    return any(
        check(expected, re.sub(r"[ \t]+$", "", s, flags=re.MULTILINE), doctest.ELLIPSIS) for s in shown
    )


def quickstart() -> list[Block]:
    """The blocks of docs/quickstart.md: its model in two versions as files, then its sessions."""
    page = blocks(ROOT / "docs" / "quickstart.md")
    model, forward = (block.text for block in page if block.kind == "python")
    fixed, count = re.subn(
        r"    def forward.*?(?=\n\n\ndef make)", lambda _: forward.rstrip(), model, flags=re.DOTALL
    )
    assert count == 1
    models = [Block("python", "model.py", model), Block("python", "fixed.py", fixed)]
    return models + [block for block in page if block.kind == "console"]


class Shell:
    """A folder in which ``opdb`` and ``python`` run in this process's environment."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.folder, self.code = folder, 0
        tools = folder / ".bin"
        tools.mkdir()
        for name, arguments in {"opdb": "-m opdb", "python": ""}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
            (tools / name).chmod(0o755)
        self.env = {
            **os.environ,
            "OPDB_URL": f"sqlite:///{database}",
            "PATH": f"{tools}:{os.environ['PATH']}",
            "COLUMNS": "200",
            "PYTHONWARNINGS": "ignore",
        }

    def write(self, block: Block) -> None:
        (self.folder / block.name).write_text(block.text, encoding="utf-8")

    def session(self, block: Block) -> int:
        """Runs the commands of a block and returns their number; fails if an output differs."""
        seen = list(commands(block))
        assert seen, block.text
        for number, (command, expected) in enumerate(seen):
            done = self.run(command)
            assert prints(done, expected), f"$ {command}\n{done.stdout}{done.stderr}"
            asks_for_code = number + 1 < len(seen) and "$?" in seen[number + 1][0]
            assert done.returncode == 0 or asks_for_code, f"$ {command}\n{done.stdout}{done.stderr}"
        return len(seen)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        if command.startswith("opdb ") and not SHELL.search(command) and forked_command.can_run(self.env):
            done = forked_command.run(shlex.split(command)[1:], self.env, self.folder, None, 600)
        else:
            done = subprocess.run(
                ["bash", "-c", command.replace("$?", str(self.code))],
                env=self.env, cwd=self.folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
        self.code = done.returncode
        return done
