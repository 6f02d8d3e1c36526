"""Operators whose QNN op has other types: negation of integers, selection of booleans, sums of converted numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from opdb.catalog.targets.target import Target
from opdb.execute.compile.model import lowered
from opdb.execute.libraries.client import VendorWorker
from opdb.programs.torch.export import export

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
HTP = Target("HTP", "SM8650", execution="emulator")
Function = Callable[[Tensor, Tensor], Tensor]


def shown(truths: Tensor) -> Tensor:
    return torch.where(truths, 1.0, 0.5)


#: x: halves of whole numbers; n: int32; both [3, 4, 8].
CASES: dict[str, Function] = {
    "neg of whole numbers": lambda x, n: -n,
    "neg of a minimum": lambda x, n: x + (-torch.minimum(n, torch.zeros_like(n))).to(x.dtype),
    "select of truths": lambda x, n: shown((x > 0)[:, 1]),
    "select of truths from behind": lambda x, n: shown((x > 0)[-1]),
    "select of a line": lambda x, n: shown((x[0] > 0)[1]),
    "select of five dimensions": lambda x, n: shown((x.reshape(3, 2, 2, 2, 4) > 0)[:, :, 1]),
    "slice of truths": lambda x, n: shown((x > 0)[..., 1:7:3]),
    "slice of truths from behind": lambda x, n: shown((x > 0)[:, -9:-1]),
    "slice of a line of truths": lambda x, n: shown((x[0, 0] > 0)[2:5]),
    "rows of truths": lambda x, n: shown((x > 0)[:, torch.tensor([2, 1, 0, -1])]),
    "rows of truths at a matrix": lambda x, n: shown((x > 0)[torch.tensor([[1, 0], [2, -1]])]),
    "index_select of truths": lambda x, n: shown(torch.index_select(x > 0, 2, torch.tensor([3, 0, 3]))),
    "cumsum of floats as whole numbers": lambda x, n: torch.cumsum(x, 1, dtype=torch.int32),
    "cumsum of the last dimension, and a sum": lambda x, n: x + torch.cumsum(x, 2, dtype=torch.int32),
    "cumsum of whole numbers as floats": lambda x, n: torch.cumsum(n, 0, dtype=torch.float32) + 0.5,
}


class Of(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        return self.function(x, n)


@pytest.fixture(scope="module")
def vendor() -> Iterator[VendorWorker]:
    with VendorWorker("HTP", HTP.soc, log_level="error") as worker:
        yield worker


@pytest.mark.parametrize("name", CASES)
def test_results_match_pytorch(name: str, vendor: VendorWorker) -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(-9, 9, (3, 4, 8), generator=draw) / 2
    n = torch.randint(-9, 9, (3, 4, 8), generator=draw, dtype=torch.int32)
    module = Of(CASES[name])
    coverage, graph = lowered(export(module, (x, n)), HTP, "graph")
    assert graph is not None, coverage.rows
    graph = graph.needed()  # some read one of the two
    arrays = {"x": x.numpy(), "n": n.numpy()}
    answer = vendor.run(graph, {t.name: arrays[t.name] for t in graph.inputs}, precision="fp16")
    assert answer.verdict == "yes", answer.log
    (made,) = answer.outputs.values()
    torch.testing.assert_close(torch.from_numpy(made), module(x, n), rtol=1e-5, atol=1e-5)
