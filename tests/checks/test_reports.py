"""The reports of a coverage: JSON, Markdown, HTML; they state what the check found."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from modules import Function
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import VERDICTS, Coverage
from opdb.checks.report import lines
from opdb.checks.report.folds import MOST, Fold, folded
from opdb.checks.report.plain import table
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.erfcx(self.linear(self.norm(x)))


def coverage_of(blocks: int) -> Coverage:
    model = nn.Sequential(*(Block() for _ in range(blocks)), Function(lambda x: torch.fmod(x, x)))
    return check_program(export(model, (torch.randn(2, 8),)), Target("HTP", "SM8650"))


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    return coverage_of(2)


def text(coverage: Coverage, form: str) -> str:
    return "\n".join(lines(coverage, form, "model<&>:make"))


class Page(HTMLParser):
    """The parts of a page that the tests read."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input", "br", "wbr", "col"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def drawn(source: str) -> list[dict[str, Any]]:
    """The rows that a page's script draws."""
    data = json.loads(
        re.findall(r'<script type="application/json" id="data">(.*?)</script>', source, re.DOTALL)[0]
    )
    return [dict(zip(data["fields"], row, strict=True)) | {"texts": data["texts"]} for row in data["rows"]]


def test_json_has_every_row_and_the_totals(coverage: Coverage) -> None:
    document = json.loads(text(coverage, "json"))
    assert [r["node"] for r in document["rows"]] == [r.node for r in coverage.rows]
    assert document["cpu"]["nodes"] == 3 and document["partitions"] == 2
    assert document["rows"][0]["file"] == __file__


def test_sarif_has_a_result_for_each_node_on_the_cpu(coverage: Coverage) -> None:
    document = json.loads(text(coverage, "sarif"))
    (run,) = document["runs"]
    left = [r for r in coverage.rows if r.verdict != "supported"]
    errors = [r for r in run["results"] if r["level"] == "error"]
    assert [r["locations"][0]["logicalLocations"][0]["name"] for r in errors] == [r.node for r in left]
    assert {r["ruleId"] for r in run["results"]} == {r["id"] for r in run["tool"]["driver"]["rules"]}
    place = errors[0]["locations"][0]["physicalLocation"]
    lines_of_file = Path(__file__).read_text().splitlines()
    assert "erfcx" in lines_of_file[place["region"]["startLine"] - 1]
    assert Path(__file__).as_posix().endswith(place["artifactLocation"]["uri"].removeprefix("file://"))
    prints = [tuple(r["partialFingerprints"].values()) for r in run["results"]]
    assert len(set(prints)) == len(prints)


def test_junit_has_a_case_for_each_node_and_fails_those_on_the_cpu(coverage: Coverage) -> None:
    suites = ElementTree.fromstring(text(coverage, "junit"))
    cases = suites.findall("testsuite/testcase")
    assert [c.get("name") for c in cases] == [r.node for r in coverage.rows]
    failed = [c.get("name") for c in cases if c.find("failure") is not None]
    assert failed == [r.node for r in coverage.rows if r.verdict != "supported"]
    assert (suites.get("tests"), suites.get("failures")) == (str(len(cases)), str(len(failed)))


def test_junit_replaces_characters_invalid_in_xml(coverage: Coverage) -> None:
    first = replace(coverage.rows[0], node="a\x00b")
    suites = ElementTree.fromstring(text(replace(coverage, rows=(first, *coverage.rows[1:])), "junit"))
    (case, *_) = suites.findall("testsuite/testcase")
    assert case.get("name") == "a\ufffdb"


def test_markdown_is_a_table_of_all_nodes(coverage: Coverage) -> None:
    got = text(coverage, "md").splitlines()
    assert got[0] == "# model\\<&\\>:make on HTP SM8650"
    nodes = got[got.index("## Nodes") + 4 :]
    assert len(nodes) == len(coverage.rows)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in nodes} == {9}
    assert any("| aten.special\\_erfcx.default | host | 2 |" in line for line in got)


def test_the_page_is_well_formed_and_has_every_row(coverage: Coverage) -> None:
    source = text(coverage, "html")
    page = Page(source)
    assert page.open == [] and "<!--" not in source
    rows = drawn(source)
    assert [r["node"] for r in rows] == [r.node for r in coverage.rows]
    assert [VERDICTS[r["verdict"]] for r in rows] == [r.verdict for r in coverage.rows]
    assert [[rows[s]["node"] for s in r["reads"]] for r in rows] == [list(r.reads) for r in coverage.rows]
    assert "model&lt;&amp;&gt;:make" in source
    assert {r["texts"][r["file"]] for r in rows} >= {Path(__file__).as_uri()}


def test_rows_state_their_inputs_and_graph(coverage: Coverage) -> None:
    """A node on the CPU separates the graph of its inputs from that of its readers."""
    rows = {r.node: r for r in coverage.rows}
    assert {r.graph for r in coverage.rows} == {1, 2, None} and coverage.partitions == 2
    for row in coverage.rows:
        assert (row.graph is None) == (row.verdict != "supported")
    cut = next(r for r in coverage.rows if r.target == "aten.special_erfcx.default")
    (before,) = (rows[name] for name in cut.reads)
    (after,) = (r for r in coverage.rows if cut.node in r.reads)
    assert (before.graph, after.graph) == (1, 2)


def test_the_page_is_self_contained(coverage: Coverage) -> None:
    used = [
        a[k] for t, a in Page(text(coverage, "html")).tags for k in ("src", "href") if k in a and t != "a"
    ]
    assert used == ["data:,"]


def test_a_page_over_2_mb_is_refused_with_a_fix(coverage: Coverage) -> None:
    many = replace(coverage, rows=tuple(replace(coverage.rows[0], node=f"node_{i}") for i in range(50_000)))
    with pytest.raises(OpdbError, match=r"the page would have 2\.\d MB, .* more than 2 MB: --format json"):
        text(many, "html")


def test_modules_are_folded() -> None:
    """Only neighbors are folded, a single node or fold gets none around it, and a fold has at most MOST children."""
    modules = ["", "a.0.x", "a.0.y", "a.1", "b.c.d", "b.c.d", "a.0.x", "/e/f/Conv", "/e/f/Relu"]
    tree = folded(modules, [f"n{i}" for i in range(9)])
    a, d, e = Fold("a", (Fold("a.0", (1, 2)), 3)), Fold("b.c.d", (4, 5)), Fold("/e/f", (7, 8))
    assert tree == Fold("", (0, a, d, 6, e))
    flat = folded([""] * 4000, [f"n{i}" for i in range(4000)])
    assert list(flat.nodes()) == list(range(4000))
    assert [f.name for f in flat.children if isinstance(f, Fold)] == [
        "n0 to n1599",
        "n1600 to n3199",
        "n3200 to n3999",
    ]
    inside = [*flat.children]
    while inside:
        fold = inside.pop()
        if isinstance(fold, Fold):
            assert len(fold.children) <= MOST
            inside += fold.children


def test_the_filters_of_the_page_work(coverage: Coverage) -> None:
    script = re.findall(r"<script>(.*?)</script>", text(coverage, "html"), re.DOTALL)[-1]
    keys = ("v", "t", "o", "m", "q")
    rows = [
        dict(zip(keys, (r.verdict, r.target, " ".join(r.ops), r.module, r.node), strict=True))
        for r in coverage.rows
    ]
    wants = [
        {"v": "!supported"},
        {"v": "host"},
        {"t": "aten.linear.default"},
        {"o": "LayerNorm"},
        {"m": "1"},
        {"q": "FMOD"},
    ]
    asked = [dict.fromkeys(keys, "") | w for w in wants]
    program = f"{script}; console.log(JSON.stringify({json.dumps(asked)}.map(w => {json.dumps(rows)}.filter(r => matches(r, w)).length)))"
    node = shutil.which("node")
    if node is None:  # no engine to run the script
        return
    done = subprocess.run([node, "-"], input=program, text=True, capture_output=True, check=True)
    assert json.loads(done.stdout) == [3, 2, 2, 2, 3, 1]


def test_the_table_has_each_warning_counted_by_strict() -> None:
    """Cast.H1 only warns: HTP finalizes some Casts of five dimensions."""

    class Truths(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x > 0).float()

    coverage = check_program(export(Truths(), (torch.randn(2, 2, 2, 2, 2),)), Target("HTP", "SM8650"))
    told = [line.strip() for line in table(coverage) if "warning" in line]
    assert any(re.match(r"warning: \w+: Cast\.H1: ", line) for line in told)
    assert told[-1].startswith(f"{coverage.warnings} nodes that a rule warns of")
    assert sum(line.startswith("warning: ") for line in told) >= coverage.warnings
