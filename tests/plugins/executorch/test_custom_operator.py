"""Torch operators outside ATen, through opdb's registration in ExecuTorch's flow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


@pytest.fixture(scope="module")
def found(environment: env.Environment) -> dict[str, Any]:
    result: dict[str, Any] = process.call(
        "custom_cases:run", environment=environment, path=[Path(__file__).parent], timeout=600
    )
    return result


def test_a_custom_operator_is_delegated_and_right(found: dict[str, Any]) -> None:
    assert found["taken"] == ("opdb_custom.my_relu.default",)
    assert found["rest"] == () and "Relu" in found["forms"].values()
    assert found["error"] < 2e-2  # fp16


def test_an_op_of_an_unregistered_package_is_refused_by_htp(found: dict[str, Any]) -> None:
    """The builder is opdb's; HTP has no such package here, so the refusal is the vendor's, not a rule's."""
    assert found["reasons"] == [("MyRelu", "vendor")]


def test_an_unknown_operator_is_reported(found: dict[str, Any]) -> None:
    assert "PyTorch knows no operator 'opdb_custom.no_such.default'" in found["unknown"]
