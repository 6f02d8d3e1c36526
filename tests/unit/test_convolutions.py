"""Convolutions of short rows and of columns to one channel, on HTP's library."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional as f

from opdb.coverage.check import check_nodes
from opdb.coverage.graph import build_part
from opdb.coverage.load import export
from opdb.coverage.nodes import Program
from opdb.probe.client import VendorWorker
from opdb.validate import Target

pytestmark = pytest.mark.vendor
HTP = Target("HTP", "SM8650")
Call = Callable[..., Tensor]


def filter_of(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


FIVE, SEVEN, BY_CHANNEL, SPREAD = (
    filter_of(6, 4, 5),
    filter_of(6, 2, 7),
    filter_of(4, 1, 15),
    filter_of(6, 4, 3),
)
COLUMN, SQUARE = filter_of(1, 4, 3, 1), filter_of(1, 4, 3, 3)
BIAS = torch.tensor([0.5])
PAIRS, EACH, VOLUME = filter_of(3, 4, 2, 2), filter_of(4, 1, 3, 3), filter_of(3, 4, 1, 2, 2)
#: name -> module, the shape of its input, the shape of the filter that HTP gets
CASES: dict[str, tuple[Call, tuple[int, ...], tuple[int, ...]]] = {
    "zeros before an image": (lambda x: f.conv2d(x, PAIRS, padding=2), (1, 4, 5, 9), (3, 3, 4, 3)),
    "zeros beside a filter one wide": (
        lambda x: f.conv2d(x, COLUMN, padding=(1, 2)),
        (1, 4, 5, 9),
        (3, 3, 4, 1),
    ),
    "zeros before each channel": (
        lambda x: f.conv2d(x, EACH, padding=(4, 3), groups=4),
        (1, 4, 5, 9),
        (5, 4, 1, 4),
    ),
    "zeros before a volume": (
        lambda x: f.conv3d(x, VOLUME, padding=(0, 2, 3)),
        (1, 4, 3, 5, 6),
        (1, 3, 4, 4, 3),
    ),
    "zeros before an image, by steps": (
        lambda x: f.conv2d(x, PAIRS, stride=2, padding=2),
        (1, 4, 5, 9),
        (2, 2, 4, 3),
    ),
    "a row of 8": (lambda x: f.conv1d(x, FIVE, padding=2), (1, 4, 8), (1, 6, 4, 6)),
    "a row of 16 that is long enough": (lambda x: f.conv1d(x, FIVE, padding=2), (1, 4, 16), (1, 5, 4, 6)),
    "a row of 9": (lambda x: f.conv1d(x, FIVE, padding=2), (1, 4, 9), (1, 5, 4, 6)),
    "a row that does not keep its length": (
        lambda x: f.conv1d(x, FIVE, padding=1),
        (1, 4, 8),
        (1, 5, 4, 6),
    ),
    "groups": (lambda x: f.conv1d(x, SEVEN, padding=3, groups=2), (2, 4, 16), (1, 8, 2, 6)),
    "by channel": (lambda x: f.conv1d(x, BY_CHANNEL, padding=7, groups=4), (2, 4, 48), (1, 16, 1, 4)),
    "dilated": (lambda x: f.conv1d(x, SPREAD, padding=4, dilation=4), (1, 4, 24), (1, 4, 4, 6)),
    "same": (lambda x: f.conv1d(x, FIVE, padding="same"), (1, 4, 8), (1, 6, 4, 6)),
    "an image one high": (
        lambda x: f.conv2d(x, FIVE[:, :, None], padding=(0, 2)),
        (1, 4, 1, 8),
        (1, 6, 4, 6),
    ),
    "a column to one channel": (
        lambda x: f.conv2d(x, COLUMN, BIAS, padding=(1, 0)),
        (2, 4, 7, 1),
        (1, 3, 4, 1),
    ),
    "a column with taps beside it": (
        lambda x: f.conv2d(x, SQUARE, BIAS, padding=1),
        (2, 4, 7, 1),
        (3, 3, 4, 1),
    ),
    "steps along a column": (
        lambda x: f.conv2d(x, COLUMN, BIAS, (2, 1), (2, 0), (2, 1)),
        (2, 4, 12, 1),
        (1, 3, 4, 1),
    ),
}


class Convolution(torch.nn.Module):
    def __init__(self, call: Call) -> None:
        super().__init__()
        self.call = call

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.call(*inputs)


@pytest.fixture(scope="module")
def worker() -> Iterator[VendorWorker]:
    with VendorWorker("HTP", HTP.soc, log_level="error") as made:
        yield made


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_right(name: str, worker: VendorWorker) -> None:
    call, shape, filter_shape = CASES[name]
    torch.manual_seed(0)
    x = torch.randn(shape)
    program = Program(export(Convolution(call), (x,)))
    coverage = check_nodes(program, HTP)
    assert coverage.complete
    part = build_part(program, coverage.lowered, "graph", program.nodes, program.inputs, program.outputs)
    (op,) = (n for n in part.graph.ops if "Conv" in n.op and n.op != "Convert")
    assert part.graph.tensors[str(op.inputs[1])].shape == filter_shape
    answer = worker.run(part.graph, {part.inputs[program.inputs[0]]: x.numpy()})
    assert answer.verdict == "yes", answer.log
    got, wanted = torch.from_numpy(answer.outputs[part.outputs[program.outputs[0]]]), call(x)
    assert (got.reshape(wanted.shape) - wanted).abs().max() <= 1e-2 * wanted.abs().max()


def test_a_filter_that_is_an_input_is_refused_with_the_rule() -> None:
    program = Program(
        export(Convolution(lambda x, w: f.conv1d(x, w, padding=2)), (torch.randn(1, 4, 8), FIVE))
    )
    (row,) = (r for r in check_nodes(program, HTP).rows if r.verdict == "rejected")
    assert "Conv2d.H21" in {r["rule"] for r in row.reasons}
    assert check_nodes(program, Target("HTP", "SM8350")).complete
