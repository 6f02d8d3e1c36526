"""The fragments of changelog.d become the next section of CHANGELOG.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KINDS = {"added", "changed", "fixed", "removed"}


def test_towncrier_accepts_every_fragment() -> None:
    fragments = sorted(p for p in (ROOT / "changelog.d").iterdir() if p.name != "README.md")
    assert {p.name.split(".")[-2] for p in fragments} <= KINDS
    assert all(p.name.startswith("+") and p.suffix == ".md" for p in fragments)
    draft = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "9.9.9", "--dir", str(ROOT)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    section = "".join(draft.split())
    missing = [p.name for p in fragments if "".join(p.read_text("utf-8").split()) not in section]
    assert "##9.9.9" in section and not missing


def test_the_marker_for_new_sections_is_at_the_top() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count("<!-- towncrier release notes start -->\n\n## ") == 1
