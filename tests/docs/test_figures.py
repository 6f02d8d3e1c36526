"""The figures of the documents are those that tools/figures.py makes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .pages import ROOT

#: More words than a reader follows; what was evaluated belongs to docs/results, what is looked up to docs/reference.
MOST = 2500
#: Written from opdb/judge/error_codes.yaml, and looked up, not read.
GENERATED = "troubleshooting"


@pytest.fixture(scope="module")
def figures() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    import figures

    return figures


def test_numbers_in_sentences_are_current(figures: ModuleType) -> None:
    stale = []
    for name in {file for file, *_ in figures.SENTENCES}:
        text = (ROOT / name).read_text(encoding="utf-8")
        if figures.sentences(name, text) != text:
            stale.append(name)
    assert stale == [], "run tools/figures.py"


def test_a_stale_number_would_be_found(figures: ModuleType) -> None:
    name, sentence, number = figures.SENTENCES[0]
    text = (ROOT / name).read_text(encoding="utf-8")
    stale = re.sub(sentence, lambda found: found[0].replace(found[1], "27"), text, count=1)
    assert stale != text and figures.sentences(name, stale) == text
    assert number() == 33


@pytest.mark.slow
@pytest.mark.vendor
@pytest.mark.torch
def test_simulated_tables_are_current(figures: ModuleType) -> None:
    """The simulation gives the same cycles in every process: equal to the last digit."""
    stale = []
    for name, _ in figures.TABLES:
        text = (ROOT / name).read_text(encoding="utf-8")
        if figures.tables(name, text) != text:
            stale.append(name)
    assert stale == [], "run tools/figures.py --simulated"


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "guides").glob("*.md")), ids=lambda page: page.stem)
def test_a_guide_is_short_enough(page: Path) -> None:
    words = len(page.read_text(encoding="utf-8").split())
    assert words <= MOST or page.stem == GENERATED, f"{words} words; divide it"


def test_every_page_is_listed() -> None:
    """docs/README.md links to every page of docs."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = set(re.findall(r"\]\(([^)#]+\.md)[^)]*\)", index))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")} - {"README.md"}
    assert pages - linked == set()
