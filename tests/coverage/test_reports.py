"""The reports of a coverage: JSON, Markdown, HTML; what they say is what was found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from modules import Function
from torch import nn

from opdb.coverage.check import Coverage, check_program
from opdb.coverage.load import export
from opdb.coverage.report import lines
from opdb.targets.target import Target

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
    """What the tests read of a page."""

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

    def rows(self) -> list[dict[str, str | None]]:
        return [a for t, a in self.tags if t == "tr" and "data-v" in a]


def test_json_has_every_row_and_the_sums(coverage: Coverage) -> None:
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


def test_junit_replaces_what_xml_cannot_hold(coverage: Coverage) -> None:
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
    assert any("| aten.special_erfcx.default | host | 2 |" in line for line in got)


def test_the_page_is_well_formed_and_has_every_row(coverage: Coverage) -> None:
    source = text(coverage, "html")
    page = Page(source)
    assert page.open == [] and "<!--" not in source
    assert [r["id"] for r in page.rows()] == [f"node-{r.node}" for r in coverage.rows]
    assert [r["data-v"] for r in page.rows()] == [r.verdict for r in coverage.rows]
    assert "model&lt;&amp;&gt;:make" in source
    links = [a.get("href") or "" for t, a in page.tags if t == "a"]
    assert Path(__file__).as_uri() in links and f"#node-{coverage.rows[0].node}" in links


def test_the_page_needs_no_other_file(coverage: Coverage) -> None:
    used = [
        a[k] for t, a in Page(text(coverage, "html")).tags for k in ("src", "href") if k in a and t != "a"
    ]
    assert used == ["data:,"]


def test_a_large_graph_is_one_readable_page() -> None:
    coverage = coverage_of(500)
    source = text(coverage, "html")
    assert len(coverage.rows) == 1501 == len(Page(source).rows())
    assert len(source) < 2_000_000


def test_the_pages_filters(coverage: Coverage) -> None:
    script = re.findall(r"<script>(.*?)</script>", text(coverage, "html"), re.DOTALL)[0]
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


@pytest.mark.browser
@pytest.mark.skipif("OPDB_TEST_CHROMIUM" not in os.environ, reason="tools/with-chromium sets it")
@pytest.mark.parametrize("width", [1400, 390])
def test_nothing_of_the_page_is_cut_off(coverage: Coverage, tmp_path: Path, width: int) -> None:
    """No scrolling sideways, and no cell whose words do not fit."""
    measure = """<script>
const cells = [...document.querySelectorAll("td, th")].filter(c => c.scrollWidth > c.clientWidth + 1);
document.title = `${document.documentElement.scrollWidth} of ${innerWidth}, ${cells.length} cells`;
</script>"""
    (tmp_path / "page.html").write_text(text(coverage, "html") + measure)
    browser = os.environ["OPDB_TEST_CHROMIUM"].split(":")[0]
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        f"--window-size={width},900",
    ]
    done = subprocess.run(
        [*command, (tmp_path / "page.html").as_uri()], capture_output=True, text=True, check=True
    )
    found = re.search(r"<title>(\d+) of (\d+), 0 cells</title>", done.stdout)
    assert found is not None, done.stdout[:2000]
    assert int(found[1]) <= int(found[2]) <= max(width, 500)
