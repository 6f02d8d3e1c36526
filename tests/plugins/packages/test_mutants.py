"""Each fault of benchmarks/package_mutants (`make mutants`) matches a place in the current C code, so that none is vacuous."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "benchmarks" / "package_mutants"))

from mutants import MUTANTS, UNSEEN  # noqa: E402

FAULTS = [(kind, m) for kinds in (MUTANTS, UNSEEN) for kind, mutants in kinds.items() for m in mutants]


@pytest.mark.parametrize(("backend", "mutant"), FAULTS, ids=[f"{b} {m.file} {m.what}" for b, m in FAULTS])
def test_each_fault_matches_one_place(backend: str, mutant: object) -> None:
    name = mutant.file  # type: ignore[attr-defined]
    places = (
        ROOT / "runtime/src/packages" / name,
        ROOT / "opdb/plugins/packages/c" / name,
        ROOT / "opdb/plugins/cloud_ai/c" / name.removeprefix("cloud_ai/"),
    )
    text = next(place for place in places if place.is_file()).read_text()
    assert text.count(mutant.old) == 1  # type: ignore[attr-defined]
    assert mutant.new != mutant.old  # type: ignore[attr-defined]


def test_faults_are_unique() -> None:
    assert len({(b, m.file, m.old, m.new) for b, m in FAULTS}) == len(FAULTS) >= 60
