"""The committed files under generated/ and README.md are current with the specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.codegen.targets import TARGETS
from opdb.codegen.writer import check
from opdb.spec.catalog import Catalog

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_generated_is_current(full: Catalog) -> None:
    differences = check(full, ROOT, TARGETS)
    assert not differences, "run `opdb generate`:\n" + "\n".join(d.diff for d in differences)
