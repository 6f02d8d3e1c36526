"""The commands of the README and the guides run, in page order, and print what the page shows."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from .. import forked_command
from .pages import ROOT, blocks
from .shell import Shell

GUIDES = {p.stem: p for p in (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))}
SESSIONS = {name: [b.name for b in blocks(page) if b.kind == "console"] for name, page in GUIDES.items()}

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as created by `opdb init`."""
    made = tmp_path_factory.mktemp("catalog") / "opdb.db"
    env = {**os.environ, "OPDB_URL": f"sqlite:///{made}"}
    forked_command.run(["init"], env, ROOT, None, 300).check_returncode()
    return made


def run(name: str, folder: Path, catalog: Path, *, breadth: bool) -> None:
    """Writes the files of a page and runs its sessions, with or without those of `make breadth`."""
    database = shutil.copyfile(catalog, folder / "opdb.db")
    shell, seen = Shell(folder, database), 0
    for block in blocks(GUIDES[name]):
        if block.is_file:
            shell.write(block)
        elif block.kind == "console" and block.name in (("", "breadth") if breadth else ("",)):
            seen += shell.session(block)
    assert seen


@pytest.mark.parametrize("name", [n for n, kinds in SESSIONS.items() if "" in kinds])
def test_guide_commands_print_the_shown_output(name: str, tmp_path: Path, catalog: Path) -> None:
    run(name, tmp_path, catalog, breadth=False)


@pytest.mark.breadth
@pytest.mark.parametrize("name", [n for n, kinds in SESSIONS.items() if "breadth" in kinds])
def test_long_guide_commands_print_the_shown_output(name: str, tmp_path: Path, catalog: Path) -> None:
    """Sessions that compile op packages, or a quantized program; the quickstart compiles one in fp16."""
    run(name, tmp_path, catalog, breadth=True)


@pytest.mark.parametrize("name", GUIDES)
def test_output_outside_of_sessions_names_its_test(name: str) -> None:
    """A section that shows a command and its output outside of a session names the test that runs it."""
    text = GUIDES[name].read_text(encoding="utf-8")
    text = re.sub(r"^```console( \w+)?\n.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        if re.search(r"^ *\$ ", section, re.MULTILINE):
            named = re.findall(r"`((?:tests|benchmarks)/[\w/.-]+)", section)
            assert named, f"{name}: {section.splitlines()[0]}"
            assert all((ROOT / n).exists() for n in named), named
