"""Natural mistakes: each is a process, ends at once with exit code 2, and says one line, compared whole (natural_mistakes.txt)."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from .. import forked_command
from .conftest import Run
from .natural_mistakes import write_files

pytestmark = pytest.mark.torch
TRANSCRIPT = Path(__file__).parent / "natural_mistakes.txt"


def mistakes() -> dict[str, str]:
    """Command line -> what it prints on stderr, from the transcript."""
    lines = TRANSCRIPT.read_text(encoding="utf-8").splitlines()
    return {
        line.removeprefix("$ opdb "): said for line, said in pairwise(lines) if line.startswith("$ opdb ")
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of all mistakes."""
    found = tmp_path_factory.mktemp("mistakes")
    write_files(found)
    return found


@pytest.mark.parametrize("command", mistakes())
def test_a_natural_mistake_gets_one_line(command: str, folder: Path, initialized: Path) -> None:
    environment = {**os.environ, "OPDB_URL": f"sqlite:///{initialized}", "COLUMNS": "200"}
    before = sorted(folder.rglob("*"))
    done = forked_command.run(command.split(), environment, folder, None, 60)
    said = mistakes()[command].replace("{folder}", str(folder))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}\n")
    assert [p for p in sorted(folder.rglob("*")) if "__pycache__" not in p.parts] == [
        p for p in before if "__pycache__" not in p.parts
    ]


def test_forty_mistakes_of_every_kind_are_in_the_transcript() -> None:
    found = mistakes()
    assert len(found) >= 40
    assert all(said.startswith("opdb: ") for said in found.values())
    assert {command.split()[0] for command in found} >= {
        "check", "compile", "cost", "run", "validate", "conformance", "query", "explain", "show", "debug", "context",
    }  # fmt: skip


def test_data_of_the_wrong_shape_is_named(opdb: Run, folder: Path) -> None:
    """Only the exported model knows the shapes."""
    done = opdb(
        "compile", "relu.onnx", "--soc", "SM8650", "-o", "relu.bin", "--quantize", "8a8w", "--data", "wrong.npz",
        cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        2,
        "opdb: --data wrong.npz: x has the shape [3, 9, 9], the input is x FLOAT_32 [1, 4] "
        "(samples may be stacked along one more axis in front)\n",
    )
    assert not (folder / "relu.bin").exists()
