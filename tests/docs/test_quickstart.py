"""Every command of docs/quickstart.md runs, in order, and prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with the page's two models."""
    made = tmp_path_factory.mktemp("quickstart")
    model, forward = (text for kind, text in BLOCKS if kind == "python")
    (made / "model.py").write_text(model)
    fixed, count = re.subn(
        r"    def forward.*?(?=\n\n\ndef make)", lambda _: forward.rstrip(), model, flags=re.DOTALL
    )
    assert count == 1
    (made / "fixed.py").write_text(fixed)
    return made


def test_every_command_prints_what_the_page_says(folder: Path) -> None:
    env = {**os.environ, "OPDB_URL": f"sqlite:///{folder / 'opdb.db'}", "COLUMNS": "200"}
    checker, seen = doctest.OutputChecker(), 0
    for kind, text in BLOCKS:
        if kind != "console":
            continue
        for command, expected in re.findall(r"^\$ opdb (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            done = subprocess.run(
                [sys.executable, "-m", "opdb", *shlex.split(command)],
                env=env, cwd=folder, capture_output=True, text=True, check=False,
            )  # fmt: skip
            shown = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)
            assert checker.check_output(expected, shown, doctest.ELLIPSIS), (
                f"opdb {command}\n{done.stdout}{done.stderr}"
            )
            assert done.returncode == ("model.py" in command and "check" in command), done.stderr
            seen += 1
    assert seen == 11
