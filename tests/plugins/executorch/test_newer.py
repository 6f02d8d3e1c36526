"""Additions of ExecuTorch 1.5 go through opdb's flow: delegated, and right."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [
    pytest.mark.executorch,
    pytest.mark.vendor,
    pytest.mark.skipif(env.release() < (1, 5), reason="of ExecuTorch 1.5"),
    pytest.mark.slow,
]
HERE = Path(__file__).parent
#: ExecuTorch's own builder makes the op; HTP's emulation is off by up to 0.5 of 2.3 in 16 bits, with and without opdb.
WRONG_ON_HTP = ("hadamard 16a8w",)


@pytest.fixture(scope="module")
def everything(environment: env.Environment) -> dict[str, Any]:
    found: dict[str, Any] = process.call("newer_cases:everything", environment=environment, path=[HERE])
    return found


def test_newer_modules_are_delegated_and_right(everything: dict[str, Any]) -> None:
    wrong = {n: got for n, got in everything.items() if isinstance(got, str) or got.left}
    assert wrong == {}
    assert {n: got.steps for n, got in everything.items() if got.steps > got.bound} == dict.fromkeys(
        WRONG_ON_HTP, ANY
    )


def test_the_rotation_becomes_one_op(everything: dict[str, Any]) -> None:
    assert everything["hadamard 16a8w"].delegated == ("qnn_custom_hadamard_transform_default",)
