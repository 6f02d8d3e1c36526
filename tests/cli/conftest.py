"""Runs the command in a separate process, as a user types it and the shell sees it (tests/forked_command.py)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .. import forked_command

Run = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def opdb(tmp_path: Path) -> Run:
    """``opdb(*args, stdin=..., env=..., cwd=...)`` on a database of the test's own."""

    def run(*args: str, stdin: str | None = None, env: dict[str, str] | None = None, cwd: Path | None = None,
            prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:  # fmt: skip
        environment = {
            **os.environ,
            "OPDB_URL": f"sqlite:///{tmp_path / 'cli.db'}",
            "COLUMNS": "200",
            **(env or {}),
        }
        if not prefix and forked_command.can_run(environment):
            return forked_command.run(list(args), environment, cwd or ROOT, stdin, 300)
        command = [*prefix, sys.executable, "-m", "opdb", *args]
        return subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            env=environment,
            cwd=cwd or ROOT,
            timeout=300,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def initialized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the specs loaded, for tests to copy."""
    file = tmp_path_factory.mktemp("database") / "opdb.db"
    forked_command.run(["init", "--db", str(file)], os.environ, ROOT, None, 300).check_returncode()
    return file


@pytest.fixture
def loaded(opdb: Run, initialized: Path, tmp_path: Path) -> Run:
    """Like ``opdb``, with the specs loaded."""
    shutil.copyfile(initialized, tmp_path / "cli.db")
    return opdb


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """The only line on stderr after a user's mistake: exit 2, nothing on stdout, no traceback."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]
