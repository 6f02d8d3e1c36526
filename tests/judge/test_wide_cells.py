"""Type rows within their slots' own data types: ``opdb lint`` reports the others, and rows of the documents validate."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.core.op_config import TensorConfig
from opdb.judge.lint import lint
from opdb.judge.samples import kernel_types, sample_config
from opdb.judge.validate import check

MINI = Path(__file__).parents[1] / "data" / "mini"
SPECS = Path(__file__).parents[2] / "specs"
CPU_2_25 = Target("CPU", sdk="2.25")


def test_a_cell_outside_the_slots_types_is_reported(tmp_path: Path) -> None:
    specs = shutil.copytree(MINI, tmp_path / "specs")
    path = specs / "ops" / "LayerNorm.yaml"
    text = path.read_text().replace("  x: [S...]\n", "  x:\n    shape: [S...]\n    dtype: [f32, f16]\n", 1)
    path.write_text(text)
    rows = [i for i, line in enumerate(text.splitlines(), 1) if line.startswith("        - {x: ")]
    wide = [i for i in rows if "{x: f" not in text.splitlines()[i - 1]]
    told = [p for p in lint(specs) if "its dtype is" in p.message]
    assert [p.line for p in told] == wide and 0 < len(wide) < len(rows)
    assert told[0].message == "no tensor of x is uq8: its dtype is f32, f16"


@pytest.mark.parametrize(("op", "target", "row"), [
    ("NonMaxSuppression", CPU_2_25, {"boxes": "f32", "scores": "f32", "selected_indices": "u32", "num_valid": "u32"}),
    ("TopK", Target("DSP"), {"x": "uq8", "values": "uq8", "indices": "uq8"}),
])  # fmt: skip
def test_a_documented_row_is_accepted(op: str, target: Target, row: dict[str, str]) -> None:
    config = sample_config(read_catalog(SPECS).compiled(op), 0, row)
    assert check(config, target).json()["violations"] == []


def test_the_cpu_library_refuses_u32_indices() -> None:
    row = {"boxes": "f32", "scores": "f32", "selected_indices": "u32", "num_valid": "u32"}
    config = sample_config(read_catalog(SPECS).compiled("NonMaxSuppression"), 0, row)
    broken = check(config, Target("CPU", sdk="2.47")).json()["violations"]
    assert [v["rule"] for v in broken] == ["NonMaxSuppression.P1"]


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_position_ids_may_be_i32_or_i64(dtype: str) -> None:
    compiled = read_catalog(SPECS).compiled("GroupQueryAttention")
    config = sample_config(compiled, 0, kernel_types(compiled, "f32"))
    inputs = (*config.inputs, TensorConfig("position_ids", dtype, config.inputs[0].shape[:2]))
    assert [t.name for t in inputs] == [s.name for s in compiled.inputs][: len(inputs)]
    assert check(replace(config, inputs=inputs), Target()).json()["violations"] == []
