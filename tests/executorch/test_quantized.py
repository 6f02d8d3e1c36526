"""Quantized nodes are one op where HTP has one, with numbers within three steps, or are left with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor]
LEFT = {"pad at the end"}  # HTP 2.47 fills with the smallest number


def test_quantized_nodes_are_delegated_and_right(environment: env.Environment) -> None:
    found = process.call(
        "quantized_cases:outcomes", environment=environment, path=[Path(__file__).parent], timeout=900
    )
    assert {name for name, got in found.items() if got.steps > 3.001} == set()
    left = {name: got.left for name, got in found.items() if got.left}
    assert set(left) == LEFT
    assert any("smallest number" in reason for reason in left["pad at the end"].values())
