"""The reproductions for ExecuTorch's maintainers fail on the unpatched release, but not with opdb's patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.executorch import env, process
from opdb.plugins.executorch.patches.registry import patches

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
HERE = Path(__file__).parent
ROOT = HERE.parents[2]


def test_each_bug_has_a_failing_reproduction(environment: env.Environment) -> None:
    ended = process.call("patch_cases:reproductions", environment=environment, path=[HERE])
    assert set(ended) == {p.id.removesuffix("-1.4") for p in patches() if p.kind == "bug"}
    applied = {name: both for name, both in ended.items() if both[1] is not None}
    assert {name: both for name, both in applied.items() if not both[0] or both[1]} == {}


def test_each_reproduction_names_its_patch_and_a_fix() -> None:
    for path in set((ROOT / "upstream").glob("*.md")) - {ROOT / "upstream" / "README.md"}:
        text = path.read_text()
        assert f"opdb's patch: `{path.stem}`" in text and "\n## Change\n" in text, path
