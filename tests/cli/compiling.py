"""The command line in this process, and the real one in another, for the tests of compile and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opdb.cli import _register, app
from opdb.core.errors import OpdbError

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "opdb")


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


class Here:
    """Calls commands in this process: PyTorch is imported once for all tests."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        if not app.registered_commands:
            _register()

    def __call__(self, *args: str | Path) -> Done:
        self.capsys.readouterr()
        code = 0
        try:
            app([str(a) for a in args])
        except OpdbError as error:
            sys.stderr.write(f"{error}\n")
            code = 2
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = self.capsys.readouterr()
        return Done(code, out, err)


def started(*args: str | Path, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """The real command in the background."""
    return subprocess.Popen(
        [*COMMAND, *map(str, args)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **(env or {})},
    )  # fmt: skip


def child_of(process: subprocess.Popen[str]) -> int:
    """The pid of the child that has the vendor's library loaded."""
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(child)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
