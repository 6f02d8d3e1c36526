"""The faults of benchmarks/package_mutants (`make mutants`) name a place of the C as it is, so that none tests nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        name, ROOT / "benchmarks" / "package_mutants" / f"{name}.py"
    )
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found  # dataclasses look there
    spec.loader.exec_module(found)
    return found


MUTANTS = _module("mutants").MUTANTS
FAULTS = [(backend, m) for backend, mutants in MUTANTS.items() for m in mutants]


@pytest.mark.parametrize(("backend", "mutant"), FAULTS, ids=[f"{b} {m.file} {m.what}" for b, m in FAULTS])
def test_a_fault_names_one_place(backend: str, mutant: object) -> None:
    text = (ROOT / "runtime" / "src" / "packages" / mutant.file).read_text()  # type: ignore[attr-defined]
    assert text.count(mutant.old) == 1  # type: ignore[attr-defined]
    assert mutant.new != mutant.old  # type: ignore[attr-defined]


def test_no_fault_is_there_twice() -> None:
    assert len({(b, m.file, m.old, m.new) for b, m in FAULTS}) == len(FAULTS) >= 60
