"""What ExecuTorch 1.5 added goes through opdb's flow: delegated, and right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.executorch import env, process

pytestmark = [
    pytest.mark.executorch,
    pytest.mark.vendor,
    pytest.mark.skipif(env.release() < (1, 5), reason="of ExecuTorch 1.5"),
]
HERE = Path(__file__).parent
#: In steps of 65,535: ExecuTorch's own builder makes the op, and HTP's emulation is off by 1.0 % of the range in 16 bits,
#: with and without opdb.
OFF = {"hadamard 16a8w": 0.02 * 2**16}


@pytest.fixture(scope="module")
def everything(environment: env.Environment) -> dict[str, Any]:
    found: dict[str, Any] = process.call("newer_cases:everything", environment=environment, path=[HERE])
    return found


def test_all_is_delegated_and_right(everything: dict[str, Any]) -> None:
    wrong = {n: got for n, got in everything.items() if isinstance(got, str) or got.left}
    assert wrong == {}
    assert {n: got.steps for n, got in everything.items() if got.steps > OFF.get(n, 3.01)} == {}


def test_the_rotation_is_one_op(everything: dict[str, Any]) -> None:
    assert everything["hadamard 16a8w"].delegated == ("qnn_custom_hadamard_transform_default",)
