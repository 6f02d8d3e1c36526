"""Errata in pages: the index, the pages of ops, valid links, the path in verdicts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from opdb.catalog.targets.target import Target
from opdb.codegen import docs, errata_docs
from opdb.codegen.artifact import sorted_ops
from opdb.core.op_config import from_json
from opdb.judge.validate import check
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum

ROOT = Path(__file__).parents[2]
RECORD = {
    "erratum": "HTP-0042", "title": "Relu returns wrong numbers", "op": "Relu", "effect": "wrong-result",
    "workaround": "reject",
}  # fmt: skip


def texts(catalog: Catalog) -> dict[str, str]:
    return {a.path.removeprefix("generated/docs/"): a.text for a in errata_docs.index(catalog)}


def test_every_link_leads_to_a_file(full: Catalog) -> None:
    made = texts(full) | {f"ops/{op}.md": a.text for op in sorted_ops(full) for a in docs.pages(full, op)}
    found = 0
    for path, text in made.items():
        for link in re.findall(r"\]\(((?:\.\./)*[\w/.-]+\.(?:md|yaml))(?:#\w+)?\)", text):
            assert (ROOT / "generated/docs" / path).parent.joinpath(link).resolve().is_file(), (path, link)
            found += 1
    assert found > 3 * len(full.errata)


def test_the_page_of_an_op_lists_its_errata(full: Catalog) -> None:
    for op in sorted_ops(full):
        (page,) = docs.pages(full, op)
        section = page.text.split("\n## Errata\n")[1].split("\n## ")[0]
        assert re.findall(r"/specs/errata/\w+/([A-Z0-9-]+)\.yaml", section) == [
            e.erratum for e in full.errata.values() if e.op == op
        ]
        assert set(page.inputs) >= {
            f"specs/errata/{e.backend.lower()}/{e.erratum}.yaml" for e in full.errata_of(op)
        }


def test_the_index_has_every_record_by_op_effect_and_scope(full: Catalog) -> None:
    index = texts(full)["errata/index.md"]
    sections = re.split(r"^## ", index, flags=re.M)[1:]
    assert [s.partition("\n")[0] for s in sections] == ["By op", "By effect", "By scope"]
    for section in sections:
        assert sorted(re.findall(r"/([A-Z0-9-]+)\.yaml\)", section)) == sorted(full.errata)


def test_all_rows_of_a_table_have_equal_width(full: Catalog) -> None:
    for path, text in texts(full).items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(widths) == 1, (path, table)
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
        assert len([t for t in tokens if t.type == "table_open"]) == len(re.findall(r"^\|-", text, re.M)), (
            path
        )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"when": "x.dtype == f16"}, "where the dtype of x is f16"),
        ({"unless": "x.dtype != f16"}, "where the dtype of x is f16"),
        (
            {"let": {"n": "prod(x.shape)"}, "when": "n > 8", "unless": "x.rank == 4"},
            "where the product of the shape of x is greater than 8; not where the rank of x is 4",
        ),
        ({}, "for every config of the op"),
        ({"pattern": "Relu of a Relu"}, "in this pattern: Relu of a Relu"),
    ],
)
def test_conditions_are_put_in_words(mini: Catalog, fields: dict[str, object], words: str) -> None:
    record = Erratum.model_validate(RECORD | fields)
    assert errata_docs.occurs(replace(mini, errata={"HTP-0042": record}), record) == words


@pytest.mark.parametrize(
    ("scope", "versions", "chips"),
    [
        ({}, "every version of QNN", "all"),
        ({"since": "2.47"}, "QNN 2.47 and later", "all"),
        ({"until": "2.48", "arch": [68, 69]}, "QNN up to 2.48", "v68, v69"),
        ({"since": "2.47", "until": "2.47", "socs": ["SM8350"]}, "QNN 2.47", "SM8350"),
        (
            {"since": "2.47", "until": "2.49", "arch": [68], "socs": ["SM8350"]},
            "QNN 2.47 to 2.49",
            "v68; SM8350",
        ),
    ],
)
def test_scopes_are_put_in_words(scope: dict[str, object], versions: str, chips: str) -> None:
    record = Erratum.model_validate(RECORD | {"scope": scope})
    assert (errata_docs.versions(record), errata_docs.chips(record)) == (versions, chips)


def test_a_verdict_names_the_record(full: Catalog) -> None:
    """HTP-0042 occurs in its own reproduction; the violation's url is the path of its record."""
    reproduction = full.errata["HTP-0042"].reproduction
    assert reproduction is not None
    verdict = check(from_json(reproduction.config), Target("HTP", "SM8350")).json()
    (hit,) = [v for v in verdict["violations"] if v["erratum"] == "HTP-0042"]
    assert hit["url"] == "specs/errata/htp/HTP-0042.yaml" and (ROOT / hit["url"]).is_file()
