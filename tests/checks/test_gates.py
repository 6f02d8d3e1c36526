"""`opdb check --fail-on`: how conditions are counted, and which are invalid."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.gates import gate
from opdb.checks.verdicts import check_program
from opdb.core.errors import OpdbError
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch


class Half(nn.Module):
    """Two nodes; no spec maps erfcx."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.erfcx(self.linear(x))


def make() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Half(), (torch.randn(2, 8),)


@pytest.fixture(scope="module")
def coverage() -> Coverage:
    return check_program(export(*make()), Target("HTP", "SM8650"))


@pytest.mark.parametrize(
    ("text", "hit"),
    [
        ("cpu>0", True), ("cpu>1", False), ("cpu>=1", True), ("host > 0", True), ("rejected>0", False),
        ("graphs>1", False), ("graphs>=1", True), ("warnings>0", False), ("errata>0", False),
        ("cpu-flops>5%", True), ("cpu-flops>6", False), ("cpu-bytes>20.5%", True),
    ],
)  # fmt: skip
def test_a_condition_is_hit_or_not(coverage: Coverage, text: str, hit: bool) -> None:
    why = gate(text).hit(coverage)
    assert (why is not None) is hit
    assert why is None or why.startswith(f"--fail-on {text}: ")


@pytest.mark.parametrize("text", ["", "cpu", "cpu<1", "cpu>1%", "cpu>-1", "nodes>1", "cpu>0 or host>0"])
def test_an_invalid_condition_is_refused_with_the_valid_forms(text: str) -> None:
    with pytest.raises(OpdbError, match=r"cpu>0; counted: cpu, .* cpu-flops>5%"):
        gate(text)


def test_the_condition_alone_decides_the_exit_code() -> None:
    from .. import forked_command  # the command imports this file alone

    def check(*more: str) -> subprocess.CompletedProcess[str]:
        args = ["check", f"{Path(__file__)}:make", "--soc", "SM8650", *more]
        return forked_command.run(args, os.environ, Path.cwd(), None, 300)

    assert check("--fail-on", "cpu>1").returncode == 0
    hit = check("--fail-on", "cpu>1", "--fail-on", "host>0")
    assert hit.returncode == 1
    assert hit.stderr.splitlines()[-1] == "--fail-on host>0: nodes whose operator opdb does not map: 1"
    assert check("--fail-on", "cpu>0", "--strict").returncode == 2
