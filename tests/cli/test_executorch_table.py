"""`opdb executorch table`."""

from __future__ import annotations

import csv
import io

import pytest

from .conftest import ROOT, Run


def test_the_csv_lists_one_backend_and_chip(loaded: Run) -> None:
    done = loaded("executorch", "table", "--format", "csv", "--soc", "sm8650")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (ROOT / "generated/tables/executorch/op-support.csv").read_text(encoding="utf-8")
    other = loaded("executorch", "table", "--format", "csv", "--soc", "SC8480XP")
    cells = {r["Operator"]: r for r in csv.DictReader(io.StringIO(other.stdout), strict=True)}
    assert "bf16 (probe HTP 2.47.0)" in cells["aten.relu.default"]["Compute DType"]


@pytest.mark.parametrize(
    ("args", "words"),
    [((), "--soc SM8650"), (("--soc", "SM865"), "did you mean"), (("--backend", "NPU"), "NPU")],
)
def test_bad_arguments_are_rejected(loaded: Run, args: tuple[str, ...], words: str) -> None:
    done = loaded("executorch", "table", "--format", "csv", *args)
    assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
