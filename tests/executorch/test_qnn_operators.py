"""torch.ops.qnn.* in ExecuTorch's flow: delegated whole, and right by PyTorch's own operators."""

from __future__ import annotations

from pathlib import Path

import pytest

from opdb.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor]


def test_operators_of_qnn_are_delegated_and_right(environment: env.Environment) -> None:
    found = process.call(
        "qnn_cases:outcomes", environment=environment, path=[Path(__file__).parent], timeout=600
    )
    assert {name: got.left for name, got in found.items() if got.left} == {}
    assert {name: got.errors for name, got in found.items() if max(got.errors) > 5e-3} == {}
    taken = {form for got in found.values() for form in got.forms}
    assert taken >= {
        "BatchToSpace", "Batchnorm", "DepthWiseConv2d", "ElementWiseSquaredDifference", "ExtractPatches", "GatherNd",
        "Gru", "L2Norm", "Lrn", "Lstm", "OneHot", "Relu1", "SpaceToBatch",
    }  # fmt: skip
