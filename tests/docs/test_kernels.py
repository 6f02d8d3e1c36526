"""docs/reference/kernels.md lists exactly the ops without a kernel."""

from __future__ import annotations

import re
from pathlib import Path

from opdb.catalog.store import read_catalog

ROOT = Path(__file__).parents[2]


def test_the_page_lists_the_ops_without_a_kernel() -> None:
    page = (
        (ROOT / "docs/reference/kernels.md")
        .read_text(encoding="utf-8")
        .partition("## Ops without a kernel")[2]
    )
    listed = [n for row in re.findall(r"^\| (.*?) \|", page, re.MULTILINE) for n in row.split(", ")]
    catalog = read_catalog(ROOT / "specs")
    without = {n for n, op in catalog.ops.items() if op.kernel is None}
    assert set(listed) - {"op", "---"} == without
    assert len(listed) == len(set(listed))


def test_the_page_names_every_kernel_file() -> None:
    page = (ROOT / "docs/reference/kernels.md").read_text(encoding="utf-8")
    helpers = {"each", "elements", "in_floats"}
    files = {p.stem for p in (ROOT / "runtime/src/kernels").glob("*.c")} - helpers
    assert {f for f in files if f"`{f}.c`" not in page} == set()
