"""Ops that a library validates but cannot finalize stay on the CPU, with the rule, instead of ending the export."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
#: Name of a case -> the node that falls back to the CPU.
LEFT = {
    "GELU": "aten_gelu_default", "cumsum": "aten_cumsum_default", "where": "aten_where_self",
    "Pad of five dimensions": "aten_constant_pad_nd_default",
}  # fmt: skip


def test_ops_that_v68_cannot_finalize_stay_on_the_cpu(environment: env.Environment) -> None:
    found = process.call("finalize_cases:outcomes", environment=environment, path=[Path(__file__).parent])
    assert {name: got.error for name, got in found.items() if got.error > 1e-2} == {}
    assert {name for name, got in found.items() if got.left} == set(LEFT)
    for name, node in LEFT.items():
        assert list(found[name].left) == [node]
        assert "Finalization fails" in found[name].left[node]
        assert "on v68" in found[name].left[node]
