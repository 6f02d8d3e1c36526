"""References in the documents are valid: files, tests, and every numbered feature once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
NAMES = [d.relative_to(ROOT).as_posix() for d in DOCUMENTS]


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_named_documents_exist(document: Path) -> None:
    for name in re.findall(r"(?<!generated/)docs/([a-z/-]+\.md)", document.read_text(encoding="utf-8")):
        assert (ROOT / "docs" / name).is_file(), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_links_lead_to_files_and_headings(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for url, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if "://" in url:
            continue
        target = (document.parent / url).resolve() if url else document
        assert target.exists(), url
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{url}#{anchor}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page: headings as GitHub names them, and HTML anchors."""
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\s-]", "", h.lower()).strip().replace(" ", "-") for h in headings}
    return made | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_named_tests_exist(document: Path) -> None:
    for file, test in re.findall(r"([\w/]+/test_\w+\.py)::(test_\w+)", document.read_text(encoding="utf-8")):
        assert f"def {test}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_every_feature_of_mllms_backend_names_a_test() -> None:
    text = (ROOT / "docs" / "reference" / "qnn-runtime.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| M(\d+) \|.*\|([^|]*)\|$", text, re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 56))
    assert all("::test_" in shown for _, shown in lines)


def test_every_feature_of_cloud_ai_names_a_test_or_reason() -> None:
    text = (ROOT / "docs" / "guides" / "cloud-ai.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| C(\d+) \|.*\|([^|]*)\|$", text, re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 41))
    assert all("::test_" in shown or shown.strip().startswith("cannot") for _, shown in lines)


@pytest.mark.parametrize("document", DOCUMENTS, ids=NAMES)
def test_emphasis_ends_in_its_paragraph(document: Path) -> None:
    """A single ``*`` before a word is a leftover, and shows as one."""
    text = re.sub(
        r"^```.*?^```|^ {4,}.*?$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    for paragraph in re.split(r"\n\s*\n", text):
        plain = re.sub(r"`[^`]*`|\*\*", "", paragraph)
        for found in re.finditer(r"(?:^|\s)\*(?=[A-Za-z])", plain):
            assert re.search(r"\S\*(?!\w)", plain[found.end() :]), plain[found.start() : found.end() + 60]
