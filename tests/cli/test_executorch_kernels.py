"""`opdb executorch kernels`: lists, files and refusals; tests/plugins/executorch/test_kernels.py builds and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Run

pytestmark = [pytest.mark.executorch, pytest.mark.slow]


def test_the_list_gives_the_op_or_the_obstacle(loaded: Run) -> None:
    done = loaded("executorch", "kernels", "--list", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["op"]: row for row in json.loads(done.stdout)}
    assert rows["aten::square.out"] == {
        "op": "aten::square.out", "qnn": ["ElementWiseMultiply"], "why": None, "in_runtime": False,
    }  # fmt: skip
    assert rows["aten::gelu.out"]["in_runtime"] and rows["qnn::LayerNorm.out"]["qnn"] == ["LayerNorm"]
    assert rows["aten::im2col.out"]["why"] == "Im2Col needs permute()"
    assert sum(bool(row["qnn"]) for row in rows.values()) >= 200


@pytest.mark.breadth
def test_a_folder_is_rewritten_unless_files_changed(loaded: Run, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    command = ("executorch", "kernels", "aten::square.out", "Relu", "-o", str(folder), "--no-build", "--json")
    first = json.loads(loaded(*command).stdout)
    assert first["kernels"] == {"aten::square.out": ["ElementWiseMultiply"], "qnn::Relu.out": ["Relu"]}
    assert first["library"] is None and first["missing"] == []
    written = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert json.loads(loaded(*command).stdout) == first
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == written
    assert not any(str(tmp_path).encode() in text for text in written.values())
    (folder / "functions.yaml").write_text("# mine\n")
    done = loaded(*command)
    assert done.returncode == 2 and "functions.yaml: changed since opdb wrote it" in done.stderr
    assert loaded(*command, "--force").returncode == 0
    assert "square.out" in (folder / "functions.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name operators, or a program with --for"),
        (("aten::nothing.out", "-o", "x"), "no spec maps an operator with this out variant"),
        (("--for", "no.pte", "-o", "x"), "no.pte: No such file or directory"),
    ],
)
def test_bad_arguments_get_one_line(loaded: Run, words: tuple[str, ...], message: str) -> None:
    done = loaded("executorch", "kernels", *words)
    assert done.returncode == 2 and message in " ".join(done.stderr.split())
