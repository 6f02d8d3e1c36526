"""fuse-responses: PyTorch's local response normalization becomes one Lrn; similar chains are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from graphs import HTP, agree, kinds, passed
from of_torch import Of, Tensor
from torch.nn import functional

from opdb.core.graph import QnnGraph
from opdb.execute.compile.model import lowered
from opdb.programs.torch.export import export

pytestmark = pytest.mark.torch
FACTORS = torch.linspace(0.1, 1, 6).view(6, 1, 1)


def graph_of(function: Callable[[Tensor], Tensor], *shape: int) -> QnnGraph:
    torch.manual_seed(5)
    made = lowered(export(Of(function), (torch.randn(shape),)), HTP, "of", without=["fuse-responses"])[1]
    assert made is not None
    return made


def before_any_pass(function: Callable[[Tensor], Tensor], *shape: int) -> QnnGraph:
    from opdb.checks.graph import build_part
    from opdb.checks.verdicts import read_and_check

    program, coverage = read_and_check(export(Of(function), (torch.randn(shape),)), HTP)
    return build_part(program, coverage.lowered, "of", program.nodes, program.inputs, program.outputs).graph


@pytest.mark.parametrize("shape", [(1, 8, 6, 5), (2, 7, 9), (3, 4, 1, 1), (2, 16, 5, 3)])
@pytest.mark.parametrize(
    ("size", "alpha", "beta", "k"), [(5, 1e-4, 0.75, 1.0), (3, 0.5, 0.5, 2.0), (7, 2.0, 1.5, 0.1)]
)
def test_local_response_norm_becomes_one_op(
    shape: tuple[int, ...], size: int, alpha: float, beta: float, k: float
) -> None:
    before = before_any_pass(lambda x: functional.local_response_norm(x, size, alpha, beta, k), *shape)
    after = passed(before, "fuse-responses").graph
    assert kinds(after) == ["Transpose", "Lrn", "Transpose"]
    agree(before, after, 1e-5)


def test_no_transpose_is_left_between_convolutions() -> None:
    weight = torch.randn(8, 8, 3, 3) / 8

    def block(x: Tensor) -> Tensor:
        y = functional.local_response_norm(functional.conv2d(x, weight), 5)
        return functional.conv2d(y, weight)

    before = graph_of(block, 1, 8, 9, 9)
    after = lowered(export(Of(block), (torch.randn(1, 8, 9, 9),)), HTP, "of")[1]
    assert after is not None
    assert "PoolAvg3d" in kinds(before)
    assert kinds(after) == ["Transpose", "Conv2d", "Lrn", "Conv2d", "Transpose"]


def averaged(x: Tensor, size: int = 5, left: int = 2, right: int = 2) -> Tensor:
    """The average of the squares over channels, written like torch.nn.functional.local_response_norm."""
    n, c, h, w = x.shape
    padded = functional.pad(x.mul(x).view(n, 1, c, h, w), (0, 0, 0, 0, left, right))
    return functional.avg_pool3d(padded, (size, 1, 1), stride=1).view(n, c, h, w)


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "an even window": lambda x: functional.local_response_norm(x, 4),
    "a window to one side": lambda x: x / averaged(x, 5, 4, 0).mul(0.1).add(1.0).pow(0.75),
    "the average is read elsewhere": lambda x: (lambda a: x / a.mul(0.1).add(1.0).pow(0.75) + a)(averaged(x)),
    "another tensor is divided": lambda x: (x + 1) / averaged(x).mul(0.1).add(1.0).pow(0.75),
    "a factor for each channel": lambda x: x / averaged(x).mul(FACTORS).add(1.0).pow(0.75),
    "a quotient of more dimensions": lambda x: x / averaged(x).unsqueeze(0).mul(0.1).add(1.0).pow(0.75),
    "no power": lambda x: x / averaged(x).mul(0.1).add(1.0),
    "pixels are averaged": lambda x: (
        x / functional.avg_pool2d(x * x, 3, stride=1, padding=1).mul(0.1).add(1.0).pow(0.75)
    ),
}


@pytest.mark.parametrize("name", list(OTHERS))
def test_similar_chains_are_not_fused(name: str) -> None:
    before = before_any_pass(OTHERS[name], 1, 6, 5, 4)
    assert passed(before, "fuse-responses").counts == {}


def test_five_dimensions_are_not_fused() -> None:
    """HTP supports Lrn up to rank 4."""
    before = before_any_pass(lambda x: functional.local_response_norm(x, 3), 1, 4, 3, 3, 2)
    assert passed(before, "fuse-responses").counts == {}
