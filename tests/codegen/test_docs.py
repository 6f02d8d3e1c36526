"""Every page has the same headings, every rule an anchor, every link a target."""

from __future__ import annotations

import csv
import io
import re

import pytest
from markdown_it import MarkdownIt

from opdb.codegen import docs, support_tables, tables, validators
from opdb.codegen.artifact import sorted_ops
from opdb.codegen.environment import c_comment, markdown
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow

HEADINGS = [
    *("Semantics", "Inputs", "Parameters", "Outputs", "Rules", "Types by backend", "Measured", "Errata"),
    *("PyTorch", "Quantization", "Kernel", "Examples", "Status"),
]


def pages(catalog: Catalog) -> dict[str, str]:
    return {op: a.text for op in sorted_ops(catalog) for a in docs.pages(catalog, op)}


def test_headings_are_the_same_on_every_page(full: Catalog, mini: Catalog) -> None:
    for catalog in (full, mini):
        for op, text in pages(catalog).items():
            assert re.findall(r"^# (.+)$", text, re.M) == [op]
            assert re.findall(r"^## (.+)$", text, re.M) == HEADINGS


def test_every_rule_has_one_anchor_and_every_link_a_target(full: Catalog) -> None:
    for op, text in pages(full).items():
        anchors = re.findall(r'<a id="(\w+)"></a>', text)
        assert sorted(anchors) == sorted(full.compiled(op).rule_ids())
        assert set(re.findall(r"\(#(\w+)\)", text)) <= set(anchors)


def test_tensors_and_parameters_link_to_their_rules(full: Catalog) -> None:
    layer_norm = pages(full)["LayerNorm"]
    rows = {m[1]: m[0] for m in re.finditer(r"^\|(?: \d+ \|)? `(\w+)` \|.*$", layer_norm, re.M)}
    assert {"[C2](#C2)", "[C3](#C3)", "[C4](#C4)"} <= set(rows["axes"].split())
    assert "[H1](#H1)" in rows["x"] and "[H1](#H1)" not in rows["gamma"]


def test_descriptions_are_on_the_page_and_in_the_header(full: Catalog, mini: Catalog) -> None:
    for catalog in (full, mini):
        header = next(a.text for a in validators.c_registry(catalog) if a.path.endswith("/ops.h"))
        comments = dict(re.findall(r"^/\* (\w+)\n((?: \* .*\n)+) \*/\nvoid opdb_validate_\1\(", header, re.M))
        assert comments.keys() == catalog.ops.keys()
        texts = pages(catalog)
        for name, op in catalog.ops.items():
            said = re.sub(r"\n \*   ", " ", comments[name])
            groups = (("inputs[{}] ", op.inputs), ("parameter ", op.params), ("outputs[{}] ", op.outputs))
            lines = [
                f" * {place.format(i)}{n}" + (f": {c_comment(d.doc)}" if d.doc else "")
                for place, group in groups
                for i, (n, d) in enumerate(group.items())
            ]
            assert said.splitlines() == lines
            for n, d in {**op.slots, **op.params}.items():
                assert not d.doc or re.search(
                    rf"^\|.* `{n}` \|.*\| {re.escape(markdown(d.doc))} ", texts[name], re.M
                )


def test_descriptions_are_escaped(mini: Catalog) -> None:
    header = next(a.text for a in validators.c_registry(mini) if a.path.endswith("/ops.h"))
    assert " * parameter operation: Function of x; no *markup*, no comment's end * /.\n" in header
    assert r"Function of x; no \*markup\*, no comment's end \*/. *ABS = 0" in pages(mini)["ElementWiseUnary"]


def test_all_rows_of_a_table_have_equal_width(full: Catalog) -> None:
    """A cell that is not escaped would add columns."""
    texts = [*pages(full).values(), *(a.text for a in (*docs.index(full), *tables.readme(full)))]
    texts += [
        a.text for a in (*tables.support(full), *support_tables.tables(full)) if a.language == "markdown"
    ]
    for text in texts:
        for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(widths) == 1, table
        tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
        assert len([t for t in tokens if t.type == "table_open"]) == len(re.findall(r"^\|-", text, re.M))


def test_every_torch_argument_is_on_the_page(full: Catalog) -> None:
    for op, text in pages(full).items():
        for target, mapping in full.ops[op].torch.items():
            section = text.split(f"### `{target}`\n")[1].split("\n### ")[0]
            for group in (mapping.inputs, mapping.absent, mapping.params, mapping.outputs, mapping.ignored):
                assert all(f"`{name}`" in section for name in group)


def test_support_csv_has_every_documented_row(full: Catalog) -> None:
    text = next(a.text for a in tables.support(full) if a.language == "csv")
    found = set()
    for line in csv.DictReader(io.StringIO(text)):
        cells = dict(cell.split("=") for cell in line["types"].split(" "))
        found.add(
            (line["op"], f"{line['backend']}.{line['configuration']}.{line['row']}", tuple(cells.items()))
        )
    wanted = {
        (op, row.id, tuple((slot, "|".join(cell)) for slot, cell in row.cells.items()))
        for op in full.ops
        for rows in full.compiled(op).type_rows.values()
        for row in rows
    }
    assert found == wanted and len(wanted) > 100
    assert all(cell for _, _, cells in wanted for _, cell in cells)
