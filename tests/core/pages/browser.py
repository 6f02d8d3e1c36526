"""Chromium at a width and in a color scheme, and the checks that every page must pass in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WIDTHS = (1400, 390)
SCHEMES = ("light", "dark")
FLAGS = (
    "headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync", "disable-quic", "hide-scrollbars",
)  # fmt: skip

#: Finds a page wider than the screen, and boxes with content wider than themselves, except drawings and code, which scroll.
CUT = """
const scrolls = e => getComputedStyle(e).display !== "inline" && getComputedStyle(e).overflowX !== "visible";
const wide = [...document.querySelectorAll("body *")].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1
  && !(e instanceof SVGElement) && !e.closest(".drawing, pre, select, .skip") && (scrolls(e) || e.matches("td, th")));
const page = document.documentElement.scrollWidth, said = wide.map(e => `${e.tagName} ${e.className}: ${e.textContent.slice(0, 60)}`);
return page > innerWidth ? [`the page: ${page} of ${innerWidth}`, ...said] : said;
"""

#: Words (letters and digits in a row) that stand on two lines.
BROKEN = r"""
const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
for (let node; node = walk.nextNode();) {
  if (!node.parentElement.checkVisibility() || node.parentElement.closest("script, style, noscript, select")) continue;
  for (const word of node.data.matchAll(/[\p{L}\p{N}]{2,}/gu)) {
    range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(word[0]);
  }
}
return [...new Set(found)];
"""


@contextmanager
def opened() -> Iterator[Any]:
    """A driver of the browser found by tools/with-chromium."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    binary, _, driver = os.environ["OPDB_TEST_CHROMIUM"].partition(":")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield made
    finally:
        made.quit()


def show(driver: Any, url: str, width: int, scheme: str, height: int = 900) -> None:
    """Reloads ``url`` on an emulated screen of ``width`` CSS pixels, a phone's if narrow."""
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    asked = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", asked)
    driver.get("about:blank")
    driver.get(url)


def faults(driver: Any) -> list[str]:
    """The content of the open page that is cut off, broken or, according to axe, hard to read."""
    from axe_core_python.selenium import Axe

    cut = [f"cut off: {what}" for what in driver.execute_script(CUT)]
    words = [f"broken word: {word}" for word in driver.execute_script(BROKEN)]
    rules = [
        f"{violation['id']}: {node['html'][:120]} {node['failureSummary'][:200]}"
        for violation in Axe().run(
            driver, options={"runOnly": ["wcag2a", "wcag2aa"], "resultTypes": ["violations"]}
        )["violations"]
        for node in violation["nodes"]
    ]
    said = [f"console: {e['message']}" for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    return cut + words + rules + said
