"""Drafts kept in specs/drafts: `opdb add-op` takes them up, new ops and next versions of specs alike."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opdb.specs
from opdb import authoring
from opdb.errors import OpdbError, SpecError
from opdb.importers.draft import draft
from opdb.store import read_catalog

SPECS = Path(opdb.specs.__file__).parent


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A copy of the specs, with the draft of an op in the place of its spec."""
    folder = tmp_path / "specs"
    shutil.copytree(SPECS, folder, ignore=shutil.ignore_patterns("drafts", "__pycache__"))
    (folder / "ops" / "Gelu.yaml").unlink()
    (folder / "drafts").mkdir()
    (folder / "drafts" / "Gelu.yaml").write_text(draft("Gelu"), encoding="utf-8")
    return folder


def test_a_kept_draft_is_taken_up_and_moves(specs: Path) -> None:
    kept = specs / "drafts" / "Gelu.yaml"
    text = kept.read_text(encoding="utf-8")
    new = authoring.draft("Gelu", specs)
    assert (new.text, new.path, new.kept) == (text, specs / "ops" / "Gelu.yaml", kept)
    assert kept.is_file() and not new.path.exists() and authoring.changes(new) == ""
    authoring.write(new, specs)
    assert new.path.read_text(encoding="utf-8") == text and not kept.exists()
    with pytest.raises(OpdbError, match="the spec is there already"):
        authoring.draft("Gelu", specs)


def test_a_kept_draft_that_cannot_be_read_stays(specs: Path) -> None:
    kept = specs / "drafts" / "Gelu.yaml"
    kept.write_text(
        kept.read_text(encoding="utf-8").replace("op: Gelu", "op: Gelu\nsurplus: 1"), encoding="utf-8"
    )
    new = authoring.draft("Gelu", specs)
    with pytest.raises(SpecError, match="surplus"):
        authoring.write(new, specs)
    assert kept.is_file() and not new.path.exists()


def test_another_target_asks_for_a_new_draft(specs: Path) -> None:
    new = authoring.draft("Gelu", specs, ["aten.gelu.default"])
    assert new.kept is None and "aten.gelu.default" in new.text
    authoring.write(new, specs)
    assert (specs / "drafts" / "Gelu.yaml").is_file()


def test_the_next_version_of_a_spec_takes_its_place(specs: Path) -> None:
    path, kept = specs / "ops" / "Relu.yaml", specs / "drafts" / "Relu.yaml"
    old = path.read_text(encoding="utf-8")
    kept.write_text(old.replace("summary: ", "summary: Again. ", 1), encoding="utf-8")
    new = authoring.draft("Relu", specs)
    assert new.path == path and "+summary: Again. " in authoring.changes(new)
    authoring.write(new, specs)
    assert path.read_text(encoding="utf-8") == new.text and not kept.exists()


def test_a_next_version_that_cannot_be_read_leaves_the_spec(specs: Path) -> None:
    path, kept = specs / "ops" / "Relu.yaml", specs / "drafts" / "Relu.yaml"
    old = path.read_text(encoding="utf-8")
    kept.write_text(old + "surplus: 1\n", encoding="utf-8")
    with pytest.raises(SpecError, match="surplus"):
        authoring.write(authoring.draft("Relu", specs), specs)
    assert path.read_text(encoding="utf-8") == old and kept.is_file()


def test_drafts_can_be_read_with_the_specs(specs: Path) -> None:
    catalog = read_catalog(specs, drafts=True)
    assert "Gelu" in catalog.ops and "Gelu" not in read_catalog(specs).ops
    assert catalog.compiled("Gelu").rule_ids()
