"""HTP's fp16 results for the largest and smallest numbers, for -0, and for results out of range."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


@pytest.mark.breadth
def test_functions_are_right_at_all_magnitudes(environment: env.Environment) -> None:
    """ExecuTorch's builders are off by 131008 in exp, exp2, softplus; by 4 in squares of -0; by 62 in log_softmax."""
    found = process.call("range_cases:errors", environment=environment, path=[Path(__file__).parent])
    assert len(found) == 35
    assert {name: off for name, off in found.items() if not off <= 1.0} == {}
