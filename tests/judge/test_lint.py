"""`opdb lint`: a slot or parameter without a description is a finding in the file that declares it, in drafts too."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from opdb.author.importers.draft import draft
from opdb.judge.lint import lint

MINI = Path(__file__).parents[1] / "data" / "mini"


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    return shutil.copytree(MINI, tmp_path / "specs")


def unsaid(specs: Path, file: str) -> dict[str, int]:
    """Name -> line of every slot or parameter without 'doc' in one file."""
    found = (p for p in lint(specs) if p.path == file and "has no 'doc'" in p.message)
    return {p.message.split("'")[1]: p.line for p in found}


def line_of(path: Path, start: str) -> int:
    return next(i for i, line in enumerate(path.read_text().splitlines(), 1) if line.startswith(start))


def test_each_slot_and_parameter_needs_a_description(specs: Path) -> None:
    path = specs / "ops" / "LayerNorm.yaml"
    assert list(unsaid(specs, "ops/LayerNorm.yaml")) == ["x", "gamma", "beta", "epsilon", "axes", "y"]
    for entry in ("shape: gather(S, axes)\n    optional: true\n", "type: u32[]\n    kind: axes\n"):
        path.write_text(path.read_text().replace(f"    {entry}", f"    {entry}    doc: A sentence.\n"))
    path.write_text(path.read_text().replace("  x: [S...]", "  x:\n    shape: [S...]\n    doc: A sentence."))
    left = unsaid(specs, "ops/LayerNorm.yaml")
    assert list(left) == ["epsilon", "y"] and left["y"] == line_of(path, "  y:")


def test_slots_of_a_base_are_reported_in_its_file(specs: Path) -> None:
    path = specs / "bases" / "elementwise_unary.yaml"
    assert list(unsaid(specs, "bases/elementwise_unary.yaml")) == ["x", "y"]
    assert unsaid(specs, "ops/Relu.yaml") == {}
    path.write_text(path.read_text().replace("x: [S...]", "x: {shape: [S...], doc: A sentence.}"))
    assert list(unsaid(specs, "bases/elementwise_unary.yaml")) == ["y"]
    relu = specs / "ops" / "Relu.yaml"
    relu.write_text(relu.read_text().replace("backends:\n", "inputs:\n  x: [S...]\nbackends:\n", 1))
    assert list(unsaid(specs, "ops/Relu.yaml")) == ["x"]  # an op describes the slots it declares


def test_a_draft_has_no_descriptions(specs: Path) -> None:
    text = draft("Argmax")
    (specs / "ops" / "Argmax.yaml").write_text(text)
    assert "doc:" not in text
    assert list(unsaid(specs, "ops/Argmax.yaml")) == ["x", "axis", "keep_dims", "y"]
