"""Pages as programs: their files are written, their commands run, their output compared.

A block with a file name after its language (```` ```python model.py ````) is a file.  A block ```` ```console ````
is a session: lines after ``$`` run in bash, in page order and in one folder; the lines below each are its
standard output, with ``...`` for parts that vary between runs; such a line stands
for any number of lines, or none.  A command exits with 0 unless ``$ echo $?`` comes next.
Only `make breadth` runs a block ```` ```console breadth ````, in the same order.  Blocks ```` ```console install ```` install the
wheel that ```` ```console wheel ```` builds (test_install.py).
"""

from __future__ import annotations

import doctest
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the word behind it (a file's name, ``breadth``, ``install``, ``wheel`` or ''), and its text."""

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
    expected = re.sub(r"^\.\.\.\n", "...", expected, flags=re.MULTILINE)
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
    return models + [block for block in page if block.kind == "console" and not block.name]
