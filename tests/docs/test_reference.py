"""The reference pages generated from the code are current, and cover the names shown in the documents."""

from __future__ import annotations

import importlib
import importlib.util
import re
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name",
    [
        "docs/reference/cli.md",
        "docs/reference/python-api.md",
        "docs/reference/chips.md",
        "docs/guides/troubleshooting.md",
    ],
)
def test_reference_pages_are_current(reference: ModuleType, name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == reference.PAGES[name](), (
        "make it again with: python tools/reference.py"
    )


def test_names_imported_in_documents_exist(reference: ModuleType) -> None:
    """Code copied from a page works; names imported from a public package are public."""
    shown = [
        (module, name.strip())
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for module, names in re.findall(
            r"^\s*from (opdb[\w.]*) import ([\w, ]+)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        for name in names.split(",")
    ]
    assert len(shown) > 10
    for module, name in shown:
        found = importlib.import_module(module)
        if not hasattr(found, "__path__") or find_spec(f"{module}.{name}") is None:
            assert hasattr(found, name), f"{module}.{name}"
            assert module not in reference.FACES or name in found._MODULES, f"{module}.{name} is not public"
