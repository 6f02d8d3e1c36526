"""CHANGELOG.md is up to date with the version that `opdb --version` prints."""

from __future__ import annotations

import re
from pathlib import Path

import opdb

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_the_newest_entry_is_the_installed_version() -> None:
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", CHANGELOG.read_text(), re.M)
    assert newest is not None
    assert newest[1] == opdb.__version__
