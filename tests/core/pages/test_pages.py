"""Pages of every kind in Chromium, at two widths and in both color schemes: nothing cut off, no broken words, no axe findings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser
import pytest
from kinds import KINDS, coverage_of, write_pages

from opdb.checks.report.html import page
from opdb.core.pages import LARGEST
from opdb.spec.catalog import Catalog

pytestmark = [
    pytest.mark.torch,
    pytest.mark.vendor,
    pytest.mark.browser,
    pytest.mark.skipif("OPDB_TEST_CHROMIUM" not in os.environ, reason="tools/with-chromium sets it"),
    pytest.mark.slow,
]
#: Scripts that unfold more of a page; only a few cases, since axe takes milliseconds per element.
_FIRST = "[...document.querySelectorAll('#cases details:not(details details)')].slice(0, 3).forEach(d => d.open = true);"
OPENED = {
    "check": "document.getElementById('cpu').click(); document.querySelectorAll('details').forEach(d => d.open = true)",
    "conformance": "document.querySelector('.twist').click();" + _FIRST,
    "op": _FIRST,
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, catalog: Catalog) -> dict[str, Path]:
    return write_pages(tmp_path_factory.mktemp("pages"), catalog)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser.opened() as found:
        yield found


@pytest.mark.parametrize("scheme", browser.SCHEMES)
@pytest.mark.parametrize("width", browser.WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_fits_and_is_readable(
    driver: Any, pages: dict[str, Path], kind: str, width: int, scheme: str
) -> None:
    browser.show(driver, pages[kind].as_uri(), width, scheme)
    background = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)")
    driver.execute_script(OPENED.get(kind, ""))
    assert browser.faults(driver) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<p style="width: 3000px">wide</p>', "cut off: the page"),
        ('<div style="width: 60px; overflow-x: auto"><p style="width: 90px">x</p></div>', "cut off: DIV"),
        ('<p style="width: 40px; overflow-wrap: anywhere">unsupported</p>', "broken word: unsupported"),
        ('<p style="color: #aaa; background: #fff">faint</p>', "color-contrast: <p"),
        ('<button aria-label=""></button>', "button-name: <button"),
    ],
)
def test_the_page_checks_detect_faults(driver: Any, tmp_path: Path, body: str, fault: str) -> None:
    (tmp_path / "page.html").write_text(
        f'<!doctype html><html lang="en"><title>x</title><main><h1>x</h1>{body}</main></html>'
    )
    browser.show(driver, (tmp_path / "page.html").as_uri(), 1400, "light")
    assert [f for f in browser.faults(driver) if f.startswith(fault)]


def test_modules_unfold_and_nodes_link_to_their_row(driver: Any, pages: dict[str, Path]) -> None:
    browser.show(driver, pages["check"].as_uri(), 1400, "light")
    boxes = lambda: len(driver.find_elements("css selector", "#graph .box"))  # noqa: E731
    driver.find_element("id", "fold").click()
    assert boxes() == 1  # the head; the encoder is one fold
    (fold,) = driver.find_elements("css selector", "#graph .fold")
    assert "106 nodes: 103 on HTP (4 graphs), 3 on the CPU" in fold.text
    fold.find_element("tag name", "button").click()
    assert boxes() == 5 and driver.switch_to.active_element.get_attribute("aria-expanded") == "true"
    driver.find_element("id", "cpu").click()
    refused = driver.find_elements("css selector", "#graph .box.rejected, #graph .box.host")
    assert [b.find_element("css selector", ".place").text for b in refused] == [
        "CPU: rejected",
        "CPU: host",
        "CPU: host",
    ]
    refused[-1].find_element("tag name", "a").click()
    (marked,) = driver.find_elements("css selector", "tr.marked")
    assert "aten.special_erfcx.default" in marked.text and "CPU: host" in marked.text
    driver.find_element("id", "f-v").send_keys("falls back")
    assert driver.find_element("id", "shown").text == "3 of 107 nodes"


def test_every_edge_is_drawn_when_all_modules_are_unfolded(driver: Any, pages: dict[str, Path]) -> None:
    browser.show(driver, pages["check"].as_uri(), 1400, "light")
    driver.find_element("id", "open").click()
    coverage = coverage_of(6)
    drawn = driver.execute_script("return document.querySelectorAll('#graph > svg > path').length")
    moving = driver.execute_script("return document.querySelectorAll('#graph > svg > path.moves').length")
    graph = {r.node: r.graph for r in coverage.rows}
    assert drawn == sum(len(r.reads) for r in coverage.rows)
    assert moving == sum(graph[s] != r.graph for r in coverage.rows for s in r.reads)


def test_a_page_of_4000_nodes_loads_quickly(driver: Any, tmp_path: Path) -> None:
    text = page(coverage_of(240), "models/large.py:make")
    assert len(text.encode()) < LARGEST / 2
    (tmp_path / "large.html").write_text(text, encoding="utf-8")
    browser.show(driver, (tmp_path / "large.html").as_uri(), 390, "dark")
    took = driver.execute_script(
        "const [n] = performance.getEntriesByType('navigation'); return n.loadEventEnd - n.startTime"
    )
    assert took < 5000  # milliseconds, on a machine that does other things
    assert driver.find_element("id", "shown").text == "4085 of 4085 nodes"
    assert len(driver.find_elements("css selector", "#graph .fold, #graph .box")) < 100
    driver.find_element("id", "after").click()
    assert driver.find_element("id", "page").text == "101 to 200"
    assert browser.faults(driver) == []
