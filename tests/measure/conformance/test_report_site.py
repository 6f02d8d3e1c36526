"""The folder of pages: links, files, and behavior in Chromium."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.core.pages import LARGEST
from opdb.core.source_folder import write_folder
from opdb.measure.conformance.report import Row, read_rows, report, site
from opdb.measure.conformance.report.badge import badge
from opdb.measure.conformance.report.changes import changes
from opdb.measure.conformance.report.pages import files
from opdb.measure.conformance.report.plots import plots
from opdb.measure.conformance.report.type_rows import measured
from opdb.measure.conformance.run import run
from opdb.spec.catalog import Catalog

from .conftest import REPORTED

pytestmark = [pytest.mark.native, pytest.mark.slow]


@pytest.fixture(scope="module")
def texts(catalog: Catalog, filled: Store) -> dict[str, str]:
    return site(catalog, filled)


class Links(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [str(given[k]) for k in ("href", "src") if k in given]
        self.ids += [str(given["id"])] if "id" in given else []


def test_every_link_leads_to_a_file(texts: dict[str, str]) -> None:
    of_ops = {path for op in REPORTED for path in (f"ops/{op}.html", f"junit/{op}.xml")}
    assert of_ops | {"index.html", "badge.svg"} == set(texts)
    for path, text in texts.items():
        if not path.endswith(".html"):
            continue
        page = Links(text)
        assert len(page.ids) == len(set(page.ids))
        for link in page.found:
            file, _, anchor = link.partition("#")
            if link.startswith("data:"):
                continue
            if file:
                assert os.path.normpath(Path(path).parent / file) in texts, (path, link)
            else:
                assert anchor in page.ids, (path, link)


def test_a_page_contains_only_its_op(texts: dict[str, str]) -> None:
    assert '"Relu-' in texts["ops/Relu.html"] and '"LayerNorm-' not in texts["ops/Relu.html"]
    assert "LayerNorm.C3" in texts["ops/LayerNorm.html"] and "LayerNorm.C3" not in texts["ops/Relu.html"]
    assert 'aria-label="Error against magnitude"' in texts["ops/LayerNorm.html"]


def test_errors_are_plotted(filled: Store) -> None:
    """Every compared result is in the histogram; each one with an error is a point."""
    rows = [r for r in read_rows(filled) if r.op == "LayerNorm" and r.ulp is not None]
    assert rows and all(r.magnitude is not None for r in rows)
    text = plots(rows)
    figure = Xml.fromstring(
        text[text.index("<svg viewBox") : text.index("</svg>", text.index("<svg viewBox")) + 6]
    )
    drawn = [r for r in rows if r.error_max and r.magnitude]
    assert len(list(figure.iter("circle"))) == len(drawn) > 0
    assert plots([replace(r, ulp=None) for r in rows]) == ""


def test_the_badge_counts_results(filled: Store) -> None:
    rows = read_rows(filled)
    assert Xml.fromstring(badge(rows)).attrib["aria-label"] == f"conformance: {len(rows)} results"
    assert "conformance: 1 wrong" in badge([replace(rows[0], outcome="fail"), *rows[1:]])
    assert "no results" in badge([])


def test_changes_since_the_previous_run_are_listed(catalog: Catalog, store: Store, tmp_path: Path) -> None:
    """A library accepts what it refused before, and vice versa."""
    assert not changes(store, read_rows(store))
    first = run(catalog, store, ("Relu",), ("c",)).run
    with contextlib.closing(sqlite3.connect(tmp_path / "opdb.db")) as connection, connection:
        connection.execute("UPDATE result SET matches = 'no', executes = 'crashed' WHERE matches = 'yes'")
    run(catalog, store, ("Relu",), ("c",))
    found = changes(store, read_rows(store))
    assert found and {(c.status, c.before, c.after) for c in found} == {
        ("matches", "no", "yes"), ("executes", "crashed", "yes"),
    }  # fmt: skip
    assert all(c.better for c in found) and not changes(store, read_rows(store, first))
    assert "Changes since the run before" in (page := site(catalog, store)["index.html"])
    assert page.count('class="better"') == len(found)


def vendor_row(**more: Any) -> Row:
    given: dict[str, Any] = {
        "op": "Relu", "case": "Relu-sample0-CPU.fp32.1", "kind": "positive", "type_row": "CPU.fp32.1",
        "case_backend": "CPU", "case_soc": "", "expected": (), "executor": "qnn-cpu", "executor_version": "2.47",
        "backend": "CPU", "soc": "", "sdk": "2.47", "emulated": False, "declared": "yes", "validates": "yes",
        "finalizes": "yes", "executes": "yes", "matches": "yes", "rules": (), "code": 0, "code_name": "",
        "error_max": 0.5, "ulp": 2.0, "magnitude": 3.0, "seconds": 0.1, "detail": "", "run": "r", "log": "",
        "outcome": "pass", "reason": "",
        "config": '{"op": "Relu", "inputs": [{"name": "x", "dtype": "FLOAT_32", "shape": [2]}], "outputs": '
        '[{"name": "y", "dtype": "FLOAT_32", "shape": [2]}]}',
    }  # fmt: skip
    return Row(**(given | more))


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "as documented"),
        ({"matches": "no"}, "1 wrong results"),
        ({"finalizes": "no", "executes": "unknown", "matches": "unknown"}, "1 validated, not finalized"),
        ({"executes": "crashed", "matches": "unknown"}, "1 crashed: finalized, not executed"),
        ({"matches": "unknown"}, "as documented, 1 not compared"),
        ({"kind": "negative", "validates": "no", "type_row": ""}, "as documented"),
        ({"kind": "negative", "type_row": ""}, "1 validated all the same"),
    ],
)
def test_documented_and_measured_support_are_compared(more: dict[str, Any], verdict: str) -> None:
    assert [m.verdict for m in measured([vendor_row(**more)])] == [verdict]


def test_changed_files_are_not_overwritten(texts: dict[str, str], tmp_path: Path) -> None:
    write_folder(tmp_path, texts, "opdb-report.json", {})
    write_folder(tmp_path, {k: v for k, v in texts.items() if "Relu" not in k}, "opdb-report.json", {})
    assert not (tmp_path / "ops/Relu.html").exists()
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(OpdbError, match=r"index\.html: changed since opdb wrote it.*--force"):
        write_folder(tmp_path, texts, "opdb-report.json", {})


def test_an_op_with_many_cases_has_several_pages(filled: Store) -> None:
    """Each page is below the size limit, every case is on one of them, and they link to each other."""
    few = [r for r in read_rows(filled) if r.op == "Relu"]
    rows = [replace(few[i % len(few)], case=f"Relu-{i}") for i in range(5000)]
    texts = files(rows, [{"uid": few[0].run, "seed": 0, "started": "", "catalog_hash": ""}])
    parts = [path for path in texts if path.startswith("ops/")]
    assert parts[:2] == ["ops/Relu.html", "ops/Relu-2.html"]
    assert max(len(texts[p].encode()) for p in parts) <= LARGEST < sum(len(texts[p]) for p in parts)
    held = [json.loads(re.findall(r'id="data">(.*?)</script>', texts[p])[0])["cases"] for p in parts]
    assert [case[0] for cases in held for case in cases] == [r.case for r in rows]
    for path in parts:
        assert {f"ops/{link}" for link in Links(texts[path]).found if link.startswith("Relu")} == set(
            parts
        ) - {path}


def test_an_oversized_single_page_is_refused(
    catalog: Catalog, filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opdb.core.pages.LARGEST", 100_000)
    with pytest.raises(
        OpdbError, match=r"more than 0\.1 MB: opdb conformance report --format html --output DIR"
    ):
        report(catalog, filled, "html")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, _, driver = os.environ["OPDB_TEST_CHROMIUM"].partition(":")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run",
                 "disable-background-networking", "disable-component-update", "disable-sync",
                 "disable-quic", "window-size=1400,1200"):  # fmt: skip
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options=options, service=Service(driver))
    yield opened
    opened.quit()


in_browser = pytest.mark.skipif("OPDB_TEST_CHROMIUM" not in os.environ, reason="tools/with-chromium sets it")


@pytest.mark.browser
@in_browser
def test_filters_and_links_work_in_the_browser(browser: Any, texts: dict[str, str], tmp_path: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    write_folder(tmp_path, texts, "opdb-report.json", {})
    browser.get((tmp_path / "index.html").as_uri())

    def shown() -> list[str]:
        lines = browser.find_elements("css selector", "#ops tr")
        return [line.get_attribute("data-op") for line in lines if line.is_displayed()]

    assert shown() == list(REPORTED)
    browser.find_element("id", "filter-op").send_keys("relu")
    assert shown() == ["Relu"] and "1 of 2 ops" in browser.find_element("id", "count").text
    browser.find_element("css selector", "#ops tr:not([hidden]) a.cell[href*='executor=c']").click()
    assert browser.current_url.endswith("ops/Relu.html#executor=c")
    count = browser.find_element("id", "count").text.split()
    assert 0 < int(count[0]) < int(count[2])
    first = browser.find_element("css selector", "#cases details")
    first.find_element("tag name", "summary").click()
    WebDriverWait(browser, 20).until(lambda _: "opdb conformance run --op Relu" in first.text)
    browser.find_element("link text", "All ops").click()
    assert browser.current_url.endswith("index.html")
    assert not [e for e in browser.get_log("browser") if e["level"] == "SEVERE"]


@pytest.mark.breadth
@pytest.mark.browser
@in_browser
def test_a_site_of_100000_results_opens(browser: Any, filled: Store, tmp_path: Path) -> None:
    """The page of an op contains only its own results."""
    few = [r for r in read_rows(filled) if r.op == "Relu"]
    rows = [
        replace(few[i % len(few)], op=f"Relu{op:02}", case=f"Relu{op:02}-{i}")
        for op in range(100)
        for i in range(1000)
    ]
    texts = files(rows, [{"uid": few[0].run, "seed": 0, "started": "", "catalog_hash": ""}])
    write_folder(tmp_path, texts, "opdb-report.json", {})
    assert max(len(t) for p, t in texts.items() if p.endswith(".html")) < 2_000_000
    browser.get((tmp_path / "index.html").as_uri())
    assert len(browser.find_elements("css selector", "#ops tr")) == 100
    browser.get((tmp_path / "ops/Relu42.html").as_uri())
    assert browser.find_element("id", "count").text.startswith("1000 of 1000")
