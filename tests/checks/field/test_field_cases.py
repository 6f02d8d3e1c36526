"""Problems that users reported, and more inputs of each kind: check, compile and run agree, and results are right."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")

import field_onnx  # noqa: F401  it fills CASES
import field_pytorch  # noqa: F401
from field_case import CASES, Case
from field_run import outcome

from ... import forked_command

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
ALL = list(chain(*CASES.values()))
#: The first reported case of each kind; `make breadth` runs the others and those that take most of a minute.
USUAL = [c[0] for kind, c in CASES.items() if kind != "O8" and (c[0].form == ".bin" or kind == "P1")]


def parameter(case: Case) -> Any:
    return pytest.param(
        case, id=f"{case.kind}-{case.name}", marks=[] if case in USUAL else pytest.mark.breadth
    )


def test_each_kind_has_five_more_inputs_than_the_report() -> None:
    assert len(CASES) == 21 and min(map(len, CASES.values())) >= 6


@pytest.mark.parametrize("case", [parameter(c) for c in ALL])
def test_check_compile_and_run_agree_on_each_case(case: Case, tmp_path: Path) -> None:
    done = outcome(case, tmp_path, forked_command.run)
    assert "Traceback" not in done.said
    assert case.said in done.said, done.said
    assert done.compile.returncode == case.exit, done.said
    if case.exit == 2 and not case.compile_options:
        assert done.check.returncode == 2 and len(done.check.stderr.strip().splitlines()) == 1
    if not case.compile_options:
        assert done.check.returncode == case.exit, done.said
    if case.exit and not case.form.endswith(".pte"):
        assert not done.written
    if case.results:
        assert done.run is not None and done.run.returncode == 0, done.run
        assert done.error is not None and done.error <= case.within
