"""Drafts kept in specs/drafts: `opdb add-op` picks them up, both new ops and next versions of specs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import opdb.specs
from opdb.author import add_op
from opdb.author.importers.draft import draft
from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError, SpecError

pytestmark = pytest.mark.slow

SPECS = Path(opdb.specs.__file__).parent


def errata_of(op: str, folder: Path) -> list[Path]:
    found = [
        p for p in (folder / "errata").rglob("*.yaml") if f"\nop: {op}\n" in p.read_text(encoding="utf-8")
    ]
    assert found
    return found


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    """A copy of the specs in which a draft replaces the spec of an op and everything that names the op."""
    folder = tmp_path / "specs"
    shutil.copytree(SPECS, folder, ignore=shutil.ignore_patterns("drafts", "__pycache__"))
    (folder / "ops" / "ElementWiseRound.yaml").unlink()
    (folder / "torch" / "round.yaml").unlink()
    for path in errata_of("ElementWiseRound", folder):
        path.unlink()
    (folder / "drafts").mkdir()
    (folder / "drafts" / "ElementWiseRound.yaml").write_text(
        draft("ElementWiseRound", ranked=["aten.round.default", "aten.round.decimals"]), encoding="utf-8"
    )
    return folder


def test_a_kept_draft_is_used_and_moved_to_the_specs(specs: Path) -> None:
    kept = specs / "drafts" / "ElementWiseRound.yaml"
    text = kept.read_text(encoding="utf-8")
    new = add_op.draft("ElementWiseRound", specs)
    assert (new.text, new.path, new.kept) == (text, specs / "ops" / "ElementWiseRound.yaml", kept)
    assert kept.is_file() and not new.path.exists() and add_op.changes(new) == ""
    add_op.write(new, specs)
    assert new.path.read_text(encoding="utf-8") == text and not kept.exists()
    with pytest.raises(OpdbError, match="the spec is there already"):
        add_op.draft("ElementWiseRound", specs)


def test_an_unreadable_kept_draft_stays_in_place(specs: Path) -> None:
    kept = specs / "drafts" / "ElementWiseRound.yaml"
    kept.write_text(
        kept.read_text(encoding="utf-8").replace("op: ElementWiseRound", "op: ElementWiseRound\nsurplus: 1"),
        encoding="utf-8",
    )
    new = add_op.draft("ElementWiseRound", specs)
    with pytest.raises(SpecError, match="surplus"):
        add_op.write(new, specs)
    assert kept.is_file() and not new.path.exists()


def test_another_target_asks_for_a_new_draft(specs: Path) -> None:
    new = add_op.draft("ElementWiseRound", specs, ["aten.round.default"])
    ((path, text),) = new.families
    assert new.kept is None and path.name == "round.yaml" and "aten.round.default" in text
    assert "torch:" not in new.text
    add_op.write(new, specs)
    assert (specs / "drafts" / "ElementWiseRound.yaml").is_file()


def test_a_deleted_spec_is_redrafted_despite_errata_and_candidates(specs: Path) -> None:
    shutil.copytree(SPECS / "errata", specs / "errata", dirs_exist_ok=True)
    with pytest.raises(SpecError, match="no op 'ElementWiseRound' in ops/"):
        read_catalog(specs)
    add_op.write(add_op.draft("ElementWiseRound", specs, ["aten.round.default"]), specs)
    catalog = read_catalog(specs)
    assert {e.op for e in catalog.errata_of("ElementWiseRound")} == {"ElementWiseRound"}
    (specs / "ops" / "Relu.yaml").unlink()
    assert not add_op.draft("Relu", specs, ["aten.relu.default"]).families
    (specs / "torch" / "unary.yaml").unlink()
    ((path, text),) = add_op.draft("Relu", specs, ["aten.relu.default"]).families
    assert path == specs / "torch" / "relu.yaml" and text.startswith(
        "family: relu\nsummary: Candidates of relu.\n"
    )
    assert text.endswith(
        "  - torch: [aten.relu.default]\n    op: Relu\n    inputs: {x: self}\n    outputs: {y: 0}\n"
    )


def test_the_next_version_of_a_spec_takes_its_place(specs: Path) -> None:
    path, kept = specs / "ops" / "Relu.yaml", specs / "drafts" / "Relu.yaml"
    old = path.read_text(encoding="utf-8")
    kept.write_text(old.replace("summary: ", "summary: Again. ", 1), encoding="utf-8")
    new = add_op.draft("Relu", specs)
    assert new.path == path and "+summary: Again. " in add_op.changes(new)
    add_op.write(new, specs)
    assert path.read_text(encoding="utf-8") == new.text and not kept.exists()


def test_an_unreadable_next_version_leaves_the_spec(specs: Path) -> None:
    path, kept = specs / "ops" / "Relu.yaml", specs / "drafts" / "Relu.yaml"
    old = path.read_text(encoding="utf-8")
    kept.write_text(old + "surplus: 1\n", encoding="utf-8")
    with pytest.raises(SpecError, match="surplus"):
        add_op.write(add_op.draft("Relu", specs), specs)
    assert path.read_text(encoding="utf-8") == old and kept.is_file()


def test_drafts_can_be_read_with_the_specs(specs: Path) -> None:
    catalog = read_catalog(specs, drafts=True)
    assert "ElementWiseRound" in catalog.ops and "ElementWiseRound" not in read_catalog(specs).ops
    assert catalog.compiled("ElementWiseRound").rule_ids()


def test_a_target_with_candidates_gets_another_in_its_family(specs: Path) -> None:
    """The drafted mapping is the last candidate; comments mark the parts a person must fill in."""
    new = add_op.draft("ElementWiseRound", specs, ["aten.relu6.default"])
    assert "aten.relu6.default" not in new.text
    path = specs / "torch" / "hardtanh.yaml"
    text = dict(new.families)[path]
    before = path.read_text(encoding="utf-8")
    added = "  - torch: [aten.relu6.default]\n    op: ElementWiseRound\n    inputs: {x: self}\n    outputs: {y: 0}\n"
    assert text == before + added and added.splitlines()[0] in add_op.changes(
        add_op.draft("Relu", specs, ["aten.relu6.default"])
    )
    add_op.write(add_op.draft("Relu", specs, ["aten.relu6.default"]), specs)
    assert add_op.unmapped("Relu", specs) == []
    names = [c.name for c in read_catalog(specs).candidates if "aten.relu6.default" in c.torch]
    assert names[-1] == "Relu"
