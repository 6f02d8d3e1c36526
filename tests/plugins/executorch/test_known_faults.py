"""Modules that are wrong with ExecuTorch's own builders: with opdb's they are right, or fall back to the CPU with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opdb.plugins.executorch import env, process

pytestmark = [pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]
HERE = Path(__file__).parent
#: fp16 on HTP, over the largest value of the reference.
FP16 = 1e-2
#: Left to the CPU with a reason; the runtime of the executorch wheel has no kernel for the operator.
NO_KERNEL = {"bilinear", "cumprod", "fmax", "copysign", "grid_sample of volumes"}
#: HTP has no op for these, or ExecuTorch has laid the node out for another rank; the program runs on the CPU.
LEFT = {
    "fmod", "isinf", "prod", "stft", "bitwise_and of integers", "grid_sample bicubic",
    "max_pool2d with places", "a graph of constants",
    "affine_grid",
    "amin after a convolution",
}  # fmt: skip


def outcomes(environment: env.Environment, cases: str) -> dict[str, Any]:
    found: dict[str, Any] = process.call(
        "fault_cases:everything", cases, environment=environment, path=[HERE], timeout=1800
    )
    return found


@pytest.mark.sweep
def test_known_faults_are_right_or_left_with_a_reason(environment: env.Environment) -> None:
    bad = {}
    for name, got in outcomes(environment, "OTHERS").items():
        right = not got.raised and got.error <= FP16 and bool(got.left) == (name in LEFT)
        if name in NO_KERNEL:
            right = "0x14" in got.raised
        if not right or any(not reasons for reasons in got.left.values()):
            bad[name] = got
    assert bad == {}


@pytest.mark.sweep
@pytest.mark.older
def test_silently_wrong_modules_are_delegated_and_right(environment: env.Environment) -> None:
    silent = outcomes(environment, "WRONG")
    assert len(silent) == 38
    assert {n: got for n, got in silent.items() if got.raised or got.left or got.error > FP16} == {}
