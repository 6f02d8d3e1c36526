"""Reports match SQL in every format; the page is self-contained."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.measure.conformance.gaps import gaps
from opdb.measure.conformance.report import Row, plain, read_rows, report
from opdb.measure.conformance.report.html import RESULT, data, page
from opdb.spec.catalog import Catalog

from .conftest import REPORTED

pytestmark = [pytest.mark.native, pytest.mark.slow]


@pytest.fixture(scope="module")
def html(catalog: Catalog, filled: Store) -> str:
    return report(catalog, filled, "html", with_gaps=True)


class Page(HTMLParser):
    """Elements, their loaded resources, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.texts: dict[str, str] = {}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append(tag)
        self.loads += [str(found[k]) for k in ("src", "href", "srcset", "action", "data") if k in found]
        self.ids += [str(found["id"])] if "id" in found else []
        if tag in ("script", "style"):
            self._in = str(found.get("id") or tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._in = ""

    def handle_data(self, text: str) -> None:
        if self._in:
            self.texts[self._in] = self.texts.get(self._in, "") + text


def embedded(html: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Page(html).texts["data"])
    return found


def test_the_page_is_self_contained(html: str) -> None:
    found = Page(html)
    assert all(link.startswith(("#", "data:")) for link in found.loads), found.loads
    assert not {"iframe", "img", "object", "embed"} & set(found.tags)
    assert not re.search(r"url\(|@import", found.texts["style"])
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|import)\s*\(|https?:", found.texts["script"])
    assert len(found.ids) == len(set(found.ids))


def test_the_page_holds_the_rows_of_sql(html: str, filled: Store) -> None:
    found = embedded(html)
    rows = read_rows(filled)
    results = [dict(zip(found["result_fields"], r, strict=True)) for r in found["results"]]
    assert len(results) == len(rows)
    for row, result in zip(rows, results, strict=True):
        case = dict(zip(found["case_fields"], found["cases"][result["case"]], strict=True))
        assert (case["id"], found["places"][result["place"]]["name"]) == (row.case, row.place)
        statuses = [found["values"][int(c)] for c in result["statuses"]]
        assert statuses == [row.declared, row.validates, row.finalizes, row.executes, row.matches]
        assert tuple(result["rules"]) == row.rules and tuple(case["expected"]) == row.expected
        assert found["outcomes"][result["outcome"]] == row.outcome
        assert json.loads(case["config"]) == json.loads(row.config)
        if row.error_max is not None:
            assert result["error_max"] == pytest.approx(row.error_max, rel=1e-5)


def test_the_script_matches_the_embedded_data(html: str) -> None:
    """Every field and element that the script names exists."""
    found, content = Page(html), embedded(html)
    script = found.texts["script"]
    assert set(re.findall(r"\bR\.(\w+)", script)) <= set(content["result_fields"])
    assert set(re.findall(r"\bC\.(\w+)", script)) <= set(content["case_fields"])
    assert set(re.findall(r"\$\(\"([\w-]+)\"\)", script)) <= set(found.ids)
    assert set(re.findall(r"\bdata\.(\w+)", script)) <= set(content)
    node = shutil.which("node")
    if node is not None:  # a JavaScript engine checks the syntax, if installed
        done = subprocess.run([node, "--check", "-"], input=script, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr


def test_the_page_has_a_table_without_scripts(html: str) -> None:
    inside = html.partition("<noscript>")[2].partition("</noscript>")[0]
    assert '<th scope="col">matches</th>' in inside and '<td data-l="op">LayerNorm</td>' in inside


def row(**more: Any) -> Row:
    plain: dict[str, Any] = {
        "op": "Relu", "case": "Relu-sample0-f32", "kind": "positive", "type_row": "", "case_backend": "",
        "case_soc": "", "expected": (), "executor": "qnn-cpu", "executor_version": "2.47", "backend": "CPU",
        "soc": "", "sdk": "2.47", "emulated": False, "declared": "yes", "validates": "yes", "finalizes": "yes",
        "executes": "yes", "matches": "no", "rules": (), "code": 0, "code_name": "", "error_max": float("inf"),
        "ulp": None, "seconds": 0.1, "detail": "", "run": "r", "outcome": "fail", "reason": "numbers",
        "log": "",
        "config": '{"op": "Relu", "inputs": [{"name": "x", "dtype": "FLOAT_32", "shape": [2]}], "outputs": '
        '[{"name": "y", "dtype": "FLOAT_32", "shape": [2]}]}',
    }  # fmt: skip
    return Row(**(plain | more))


def test_agreement_of_sweeps_is_shown_if_present() -> None:
    counts = {"both_accept": 60, "both_reject": 38, "we_accept_it_rejects": 2, "we_reject_it_accepts": 0,
              "undecided": 0, "crashed": 1}  # fmt: skip
    found = [
        {"op": "Relu<", "backend": "CPU", "soc": None, "sdk": "2.47", "n": 100, **counts, "percent": 98.0}
    ]
    text = page([row()], [], None, found)
    cells = re.findall(r'<td data-l="[^"]*">(.*?)</td>', text.partition("h-agreement")[2])
    assert cells[:3] == ["Relu&lt;", "CPU 2.47", "100"] and "98.00" in cells
    assert "h-agreement" not in page([row()], [])
    assert plain.table([row()], None, found).splitlines()[-2].split()[-1] == "98.00"
    assert json.loads(plain.document([row()], [], None, found))["agreement"] == found


def test_hostile_text_is_escaped() -> None:
    evil = "</script><script>alert(1)</script><!-- \u2028 &amp;"
    text = page(
        [row(log=f"error: {evil}", reason=evil, detail=evil)], [{"uid": "r", "seed": 0, "started": evil}]
    )
    assert Page(text).tags.count("script") == 2
    found = embedded(text)
    assert found["results"][0][RESULT.index("reason")] == evil


def test_infinity_is_written_as_valid_json() -> None:
    found = data([row()], [])
    assert found["results"][0][RESULT.index("error_max")] == "inf"
    json.dumps(found, allow_nan=False)


def test_the_json_report_has_every_result_and_gap(catalog: Catalog, filled: Store) -> None:
    found = json.loads(report(catalog, filled, "json", with_gaps=True))
    assert found["format"] == "opdb-conformance-1"
    rows = read_rows(filled)
    assert [r["case"] for r in found["results"]] == [r.case for r in rows]
    assert {r["rule"] for r in found["gaps"]["rules"]} >= {"LayerNorm.C3", "Relu.H1"}


def test_the_junit_report_has_a_case_per_result(catalog: Catalog, filled: Store) -> None:
    root = Xml.fromstring(report(catalog, filled, "junit"))
    rows = read_rows(filled)
    assert int(root.attrib["tests"]) == len(rows) == len(list(root.iter("testcase")))
    assert root.attrib["failures"] == "0"
    assert {s.attrib["name"] for s in root} == {"python", "c"}
    first = next(root.iter("testcase"))
    assert [p.attrib["name"] for p in first.iter("property")][:5] == [
        "declared", "validates", "finalizes", "executes", "matches",
    ]  # fmt: skip


def test_junit_distinguishes_failures_from_findings() -> None:
    from opdb.measure.conformance.report.junit import document

    rows = [row(log="bad \x00 byte", detail="y[0]"), row(case="b", outcome="finding", reason="no: finalizes")]
    root = Xml.fromstring(document(rows))
    assert (root.attrib["failures"], len(list(root.iter("failure")))) == ("1", 1)
    assert any(p.attrib == {"name": "finding", "value": "no: finalizes"} for p in root.iter("property"))


def test_the_table_has_a_line_per_op_and_executor(catalog: Catalog, filled: Store) -> None:
    lines = report(catalog, filled, "table").splitlines()
    assert lines[0].split()[:3] == ["op", "executor", "cases"]
    assert len(lines) == 1 + 2 * len(REPORTED)


def test_the_report_shows_coverage_of_the_rules(catalog: Catalog, filled: Store) -> None:
    found = gaps(catalog, filled, REPORTED)
    assert found.left == ()
    assert (found.code_not_spec, found.cases_not_spec, found.cases_not_code) == ((), (), ())
    by_rule = {r.rule: r for r in found.rules}
    assert by_rule["LayerNorm.C1"].implied_by == ("LayerNorm.C2",) and by_rule["LayerNorm.C1"].alone == 0
    assert by_rule["LayerNorm.H3"].positive and by_rule["LayerNorm.H3"].backend == "HTP"
    others = gaps(catalog, filled, ["Split"])
    assert {"positive", "negative", "executed"} <= set(others.left[0].empty), "what did not run is a gap"


def test_reports_without_results_or_format_are_refused(catalog: Catalog, store: Store, filled: Store) -> None:
    with pytest.raises(OpdbError, match="no results; make some with 'opdb conformance run'"):
        report(catalog, store, "table")
    with pytest.raises(OpdbError, match="no report format 'pdf'; known: table, json, junit, html"):
        report(catalog, filled, "pdf")
    with pytest.raises(OpdbError, match="no results of run 99"):
        report(catalog, filled, "json", run=99)


def test_a_report_is_reproducible(catalog: Catalog, filled: Store, tmp_path: Path) -> None:
    assert report(catalog, filled, "html") == report(catalog, filled, "html")
