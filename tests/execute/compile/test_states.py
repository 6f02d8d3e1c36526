"""The record of a context's states."""

from __future__ import annotations

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.execute.compile.states import State, recorded, states_json


def test_a_record_survives_a_round_trip() -> None:
    states = (
        State("cache", "b_cache", "index_copy", np.zeros((2, 3), np.float32), "net"),
        State("count", "b_count", "add", np.array([3], np.int32), "net"),
    )
    read = recorded({"states": states_json(states)}, "net")
    assert [(s.buffer, s.input, s.output) for s in read] == [(s.buffer, s.input, s.output) for s in states]
    assert all(
        (a.initial == b.initial).all() and a.initial.dtype == b.initial.dtype
        for a, b in zip(read, states, strict=True)
    )
    assert states_json(states)[0]["initial"] == "zeros"
    assert recorded({"states": states_json(states)}, "other") == () == recorded({}, "net")


@pytest.mark.parametrize(
    "change", [{"shape": [9]}, {"initial": "no base64"}, {"stored": "no type"}, {"input": None}]
)
def test_a_damaged_record_is_rejected(change: dict[str, object]) -> None:
    entry = states_json((State("count", "b_count", "add", np.array([3], np.int32), "net"),))[0] | change
    if change.get("input", 0) is None:
        del entry["input"]
    with pytest.raises(OpdbError, match="record of the context's states is damaged"):
        recorded({"states": [entry]}, "net")
