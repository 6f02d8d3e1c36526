"""opdb is installed under its own name, and the install blocks of the documents work with the wheel that they build."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from opdb.core.install import DISTRIBUTION, add_extras
from opdb.core.version import __version__

from .pages import ROOT, blocks, commands
from .shell import Shell

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: What people read: pages, messages, generated files, and the tools that print.
READ = (
    "docs",
    "opdb",
    "codegen",
    "runtime",
    "generated",
    "specs",
    "examples",
    "tools",
    "benchmarks",
    "changelog.d",
)
KINDS = {".md", ".py", ".j2", ".yaml", ".toml", ".html", ".txt", ".c", ".h", ".csv", ""}
#: `pip install opdb`, with options and quotes, and `opdb[extra]`.
STRANGER = (
    re.compile(r"\binstall +(?:-{1,2}[\w-]+(?:[ =][^ ]+)? +)*['\"]?opdb(?![\w./-])"),
    re.compile(r"(?<![\w./-])opdb\[[a-z]+[,\]]"),
)
EXTRAS = re.compile(r"(?:qnn-opdb|\.whl\)|['\"]\.)\[([a-z, ]+)\]")
PAGES = [
    page
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if any(b.kind == "console" and b.name == "install" for b in blocks(page))
]


def texts() -> list[Path]:
    found = [p for room in READ for p in (ROOT / room).rglob("*") if p.is_file() and p.suffix in KINDS]
    found = [p for p in found if "__pycache__" not in p.parts]
    return [*found, *ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile"]


def test_nothing_tells_anybody_to_install_opdb() -> None:
    """On the Python package index ``opdb`` is a stranger's package, whose setup code pip would run."""
    said = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in texts()
        for pattern in STRANGER
        for found in pattern.finditer(path.read_text(encoding="utf-8"))
    ]
    assert said == []


@pytest.mark.parametrize(
    "line",
    ["pip install opdb", "pip install 'opdb[qnn]'", "pip install -U --no-deps opdb", "needs opdb[onnx,qnn]"],
)
def test_such_a_line_would_be_found(line: str) -> None:
    assert any(pattern.search(line) for pattern in STRANGER)


def test_the_name_in_messages_is_the_package() -> None:
    assert PROJECT["name"] == DISTRIBUTION
    assert add_extras("qnn", "onnx") == "pip install 'qnn-opdb[qnn,onnx]'"
    assert list(PROJECT["scripts"]) == ["opdb"]


def test_every_extra_that_is_named_exists() -> None:
    named = {
        extra.strip(): path.relative_to(ROOT).as_posix()
        for path in texts()
        for group in EXTRAS.findall(path.read_text(encoding="utf-8"))
        for extra in group.split(",")
    }
    assert {"qnn", "onnx", "executorch"} <= set(named)
    assert {e: where for e, where in named.items() if e not in PROJECT["optional-dependencies"]} == {}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that the quickstart's block builds from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    not_source = (
        ".git",
        ".venv*",
        "build",
        "dist",
        "report",
        "*.egg-info",
        "*.so",
        ".*_cache",
        "__pycache__",
    )
    shutil.copytree(ROOT, folder / "path" / "to" / "opdb", ignore=shutil.ignore_patterns(*not_source))
    shell = Shell(folder, folder / "opdb.db")
    (block,) = [b for b in blocks(ROOT / "docs" / "quickstart.md") if b.name == "wheel"]
    assert shell.session(block) == 1
    (made,) = folder.glob("qnn_opdb-*.whl")
    return made


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [n for n in files.namelist() if n.endswith(".dist-info/METADATA")]
        return email.message_from_bytes(files.read(name))


@pytest.mark.slow
def test_the_wheel_has_the_name_and_every_extra(wheel: Path) -> None:
    said = metadata(wheel)
    assert (said["Name"], said["Version"]) == (DISTRIBUTION, __version__)
    assert set(said.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    required = " ".join(said.get_all("Requires-Dist", []))
    assert f"{DISTRIBUTION}[qnn,torch]" in required and not re.search(r"(?<![\w-])opdb\[", required)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_install_blocks_work(page: Path, wheel: Path, tmp_path: Path) -> None:
    """Each command of the page's install blocks, in a new environment and with the wheel.

    Two things differ from a user's machine: pip leaves out requirements (PIP_NO_DEPS), which the environment takes from this
    one, and no system package is installed.  `tools/first-hour` does both in a bare Debian.
    """
    shutil.copy(wheel, tmp_path)
    shell = Shell(tmp_path, tmp_path / "opdb.db")
    shell.env |= {
        "PIP_NO_DEPS": "1",
        "XDG_DATA_HOME": os.environ.get("XDG_DATA_HOME", str(ROOT / ".venv" / "share")),
    }
    for name in ("opdb", "python"):
        (tmp_path / ".bin" / name).unlink()
    shell.env["PATH"] = f"{tmp_path / 'venv' / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    ran = []
    for command, _ in [c for b in blocks(page) if b.name == "install" for c in commands(b)]:
        if command.startswith(("apt-get ", "sudo ")):
            continue
        done = run_apart(shell, command)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        ran.append(command)
        if command.endswith("-m venv venv"):
            (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
            (site / "requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    assert any("pip install" in command for command in ran)
    done = run_apart(shell, "opdb --version && python -c 'import opdb; print(opdb.__file__)'")
    version, file = done.stdout.splitlines()
    assert version == f"opdb {__version__}" and Path(file).is_relative_to(tmp_path / "venv"), done.stdout


def run_apart(shell: Shell, command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command as a new process: a forked one would be the opdb of this checkout."""
    return subprocess.run(
        ["bash", "-c", command], env=shell.env, cwd=shell.folder, capture_output=True, text=True, check=False
    )
