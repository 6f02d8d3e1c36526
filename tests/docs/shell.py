"""A folder in which a page's commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from .. import forked_command
from .pages import Block, commands, prints

#: Characters with a meaning in bash.
SHELL = re.compile(r"[|&;<>$`*?\\\n~{}#]")


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
