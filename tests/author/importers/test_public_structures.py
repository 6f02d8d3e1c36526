"""`opdb import xml` rejects none of the structures of public op packages."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from opdb.author.importers.opxml.draft import drafts
from opdb.author.importers.opxml.read import read
from opdb.cli import import_export
from opdb.judge.lint import lint
from opdb.spec.catalog import Catalog
from opdb.spec.compiler import compile_op
from opdb.spec.files import load, parse_document
from opdb.spec.model import OpDef

from .public_structures import STRUCTURES


@pytest.mark.parametrize("name", STRUCTURES)
def test_each_public_structure_is_drafted(name: str, tmp_path: Path, catalog: Catalog) -> None:
    wanted = STRUCTURES[name]
    path = tmp_path / "package.xml"
    path.write_text(wanted.text)
    found = read(path)
    made = drafts(found, path.name, catalog.backends)
    assert len(made) == wanted.ops == len({d.op for d in made})
    for draft in made:
        compile_op(load(OpDef, parse_document(draft.text, f"{draft.op}.yaml")), catalog.context)
    assert len(found.notes) == len(wanted.notes)
    assert all(w in n for w, n in zip(wanted.notes, found.notes, strict=True))
    text = "".join(d.text for d in made)
    assert [w for w in wanted.drafts if w not in text] == []
    said = [w for d in made for w in d.words]
    assert [w for w in wanted.unsaid if w not in said] == []
    assert found.qhpi is ("UseQHPI" in wanted.text)


def test_the_command_writes_drafts_with_warnings(tmp_path: Path) -> None:
    """The drafts of each file go to a separate folder, which can be read and linted as a folder of specs."""
    runner = CliRunner()
    for i, structure in enumerate(s for n, s in STRUCTURES.items() if n.startswith(("mllm, n", "a how-to"))):
        path, out = tmp_path / f"p{i}.xml", tmp_path / f"own{i}" / "ops"
        path.write_text(structure.text)
        (out.parent / "kernels").mkdir(parents=True)
        done = runner.invoke(import_export.import_app, ["xml", str(path), "--output", str(out)])
        assert done.exit_code == 0, (structure, done.output, done.exception)
        assert len(list(out.glob("*.yaml"))) == structure.ops
        assert done.stderr.count("warning: ") == len(structure.notes)
        faults = {p.message for p in lint(out.parent)}
        assert not [f for f in faults if "spelling" in f or "unknown" in f], faults
