"""Pages and tables of the mini catalog, as whole files in tests/codegen/golden.

OPDB_UPDATE_GOLDEN=1 rewrites them; reviewers read the diff.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from opdb.catalog import migrate
from opdb.catalog.store import Store, evidence
from opdb.codegen import constants, docs, formatters, support_tables, tables
from opdb.codegen.artifact import sorted_ops, with_header
from opdb.spec.catalog import Catalog

GOLDEN = Path(__file__).parent / "golden"


#: Some of the cells shipped with opdb, frozen.
EVIDENCE = Path(__file__).parents[1] / "data" / "mini-evidence.jsonl.gz"


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    """The mini catalog from a database with the frozen cells."""
    monkeypatch.setattr(evidence, "shipped_path", lambda: EVIDENCE)
    migrate.upgrade(url := f"sqlite:///{tmp_path / 'opdb.db'}")
    store = Store(url)
    store.load_shipped()
    store.sync(GOLDEN.parent / "specs")
    return store.load_catalog()


def test_generated_files_match_the_golden_files(stored: Catalog) -> None:
    mini = stored
    artifacts = [a for op in sorted_ops(mini) for a in docs.pages(mini, op)]
    artifacts += [
        *docs.index(mini),
        *tables.support(mini),
        *tables.readme(mini),
        *support_tables.tables(mini),
    ]
    artifacts += [a for a in (*constants.python(mini), *constants.c(mini)) if "op" not in Path(a.path).stem]
    texts = formatters.format_all(artifacts)
    made = {
        a.path.removeprefix("generated/"): with_header(replace(a, text=t))
        for a, t in zip(artifacts, texts, strict=True)
    }
    if os.environ.get("OPDB_UPDATE_GOLDEN"):
        for name, text in made.items():
            (GOLDEN / name).parent.mkdir(parents=True, exist_ok=True)
            (GOLDEN / name).write_text(text)
    kept = {p.relative_to(GOLDEN).as_posix(): p.read_text() for p in GOLDEN.rglob("*") if p.is_file()}
    assert sorted(kept) == sorted(made)
    for name, text in made.items():
        assert text == kept[name], name
