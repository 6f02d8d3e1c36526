"""Every command of docs/quickstart.md runs, in order, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from .pages import quickstart
from .shell import Shell

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


def test_every_command_prints_the_shown_output(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path / "opdb.db")
    ran = 0
    for block in quickstart():
        if block.is_file:
            shell.write(block)
        else:
            ran += shell.session(block)
    assert ran == 12
