"""Every command of docs/quickstart.md runs, in order, and prints what the page says."""

from __future__ import annotations

import re

import pytest

from .pages import ROOT, Block, Shell, blocks

BLOCKS = blocks(ROOT / "docs" / "quickstart.md")

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A working directory with the page's two models."""
    made = tmp_path_factory.mktemp("quickstart")
    model, forward = (block.text for block in BLOCKS if block.kind == "python")
    fixed, count = re.subn(
        r"    def forward.*?(?=\n\n\ndef make)", lambda _: forward.rstrip(), model, flags=re.DOTALL
    )
    assert count == 1
    shell = Shell(made, made / "opdb.db")
    shell.write(Block("python", "model.py", model))
    shell.write(Block("python", "fixed.py", fixed))
    return shell


def test_every_command_prints_what_the_page_says(shell: Shell) -> None:
    assert sum(shell.session(block) for block in BLOCKS if block.kind == "console") == 12
