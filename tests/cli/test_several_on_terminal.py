"""`opdb check` on several chips and `opdb diff --model` on a terminal: every line fits, no word is broken, the answer is first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .terminal import check_shape, on_terminal, piped, words
from .test_diff_model import MODELS

pytestmark = pytest.mark.torch
CHECK = ("check", "models.py:net", "--soc", "SM8350,SM8650,QCM6490")
DIFF = ("diff", "--model", "models.py:net", "--soc", "SM8350,SM8650", "--sdk", "2.47,2.51")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("args", [CHECK, DIFF], ids=["check", "diff"])
def test_every_line_fits(folder: Path, args: tuple[str, ...], columns: int) -> None:
    database = folder / "opdb.db"
    whole = piped(database, *args, cwd=folder)
    _, text = on_terminal(columns, database, *args, cwd=folder, code=whole.returncode)
    check_shape(text, columns, words(whole.stdout) | words(whole.stderr))
    first = next(line for line in text.splitlines() if line.strip())
    assert first.startswith("target" if args is CHECK else "SDK 2.47 -> 2.51 on HTP SM8350"), text


def test_json_is_not_wrapped(folder: Path) -> None:
    for args in (CHECK, DIFF):
        code = piped(folder / "opdb.db", *args, cwd=folder).returncode
        _, text = on_terminal(80, folder / "opdb.db", *args, "--json", cwd=folder, code=code)
        assert json.loads(text[min(text.find(mark) % len(text) for mark in "[{") :])
