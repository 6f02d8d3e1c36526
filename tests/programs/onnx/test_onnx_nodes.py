"""ONNX's node tests on the C kernels: right, or refused with a reason; wrong results are in a strict list."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

import pytest
from onnx_cases import OTHERS_NUMBERS, cases
from onnx_nodes import NO_KERNEL, RIGHT, WRONG, outcomes

pytestmark = pytest.mark.torch


@pytest.mark.breadth
def test_two_cases_of_each_operator_are_right() -> None:
    """The sweep below runs all cases."""
    by_operator = groupby(cases(), lambda c: c.model.graph.node[0].op_type)
    chosen = [c for _, group in by_operator for c in list(group)[:2]]
    found = list(outcomes(tuple(chosen)))
    told = [f"{o.name}: {o.text}" for o in found if o.outcome == WRONG and o.name not in OTHERS_NUMBERS]
    assert not told, "\n".join(told)
    assert len({o.operator for o in found if o.outcome == RIGHT}) >= 115


@pytest.mark.sweep
def test_all_cases_are_right_or_listed() -> None:
    found = list(outcomes(cases()))
    count = Counter(o.outcome for o in found)
    assert {o.name for o in found if o.outcome == WRONG} == OTHERS_NUMBERS
    assert all(o.text for o in found if o.outcome != RIGHT)
    assert count[RIGHT] >= 1280
    without = {o.name: o.text for o in found if o.outcome == NO_KERNEL}
    assert all("unsupported" in text for text in without.values()), without  # of float64
