"""Pages and tables of the mini catalogue, as whole files in tests/codegen/golden.

OPDB_UPDATE_GOLDEN=1 rewrites them; the diff is what a reviewer reads.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from opdb.codegen import constants, docs, evidence, formatters, support_tables, tables
from opdb.codegen.artifact import sorted_ops, with_header
from opdb.spec.catalog import Catalog

GOLDEN = Path(__file__).parent / "golden"


#: Some cells of what opdb ships, frozen.
EVIDENCE = Path(__file__).parents[1] / "data" / "mini-evidence.jsonl.gz"


def test_golden_files(mini: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "shipped_path", lambda: EVIDENCE)
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
