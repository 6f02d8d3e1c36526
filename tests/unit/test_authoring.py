"""Drafts kept in specs/drafts: `opdb add-op` takes them up; each can be read with all the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opdb.specs
from opdb import authoring
from opdb.errors import OpdbError, SpecError
from opdb.store import read_catalog

SPECS = Path(opdb.specs.__file__).parent
DRAFTS = sorted(p.stem for p in (SPECS / "drafts").glob("*.yaml"))


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A copy of the specs with one draft."""
    folder = tmp_path / "specs"
    shutil.copytree(SPECS, folder, ignore=shutil.ignore_patterns("drafts", "__pycache__"))
    (folder / "drafts").mkdir()
    shutil.copy(SPECS / "drafts" / "Gelu.yaml", folder / "drafts")
    return folder


def test_a_kept_draft_is_taken_up_and_moves(specs: Path) -> None:
    kept = specs / "drafts" / "Gelu.yaml"
    text = kept.read_text(encoding="utf-8")
    new = authoring.draft("Gelu", specs)
    assert (new.text, new.path, new.kept) == (text, specs / "ops" / "Gelu.yaml", kept)
    assert kept.is_file() and not new.path.exists()
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


def test_all_drafts_can_be_read_with_the_specs() -> None:
    catalog = read_catalog(SPECS, drafts=True)
    assert DRAFTS and set(DRAFTS) <= set(catalog.ops)
    assert all(catalog.compiled(name).rule_ids() for name in catalog.ops)
