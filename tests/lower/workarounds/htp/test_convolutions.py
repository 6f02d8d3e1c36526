"""Convolutions that HTP computes wrongly in their plain form: short rows, columns, zeros before an image; on its library."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from htp_module import HTP, Call, Htp
from obeying import avoided, obeying
from torch import Tensor
from torch.nn import functional as f

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import check_nodes
from opdb.core.op_config import Quant
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program
from opdb.runtime.forms import LoweredOp, lowered_op, tensor_param
from opdb.runtime.tensors import TensorRef

pytestmark = pytest.mark.vendor
Function = Callable[..., Tensor]


def filter_of(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


FIVE, SEVEN, BY_CHANNEL, SPREAD = (
    filter_of(6, 4, 5),
    filter_of(6, 2, 7),
    filter_of(4, 1, 15),
    filter_of(6, 4, 3),
)
COLUMN, SQUARE = filter_of(1, 4, 3, 1), filter_of(1, 4, 3, 3)
TALL, LEVEL, DEEP = filter_of(5, 4, 3, 1), filter_of(4, 1, 1, 4), filter_of(3, 4, 1, 3, 1)
BIAS = torch.tensor([0.5])
PAIRS, EACH, VOLUME = filter_of(3, 4, 2, 2), filter_of(4, 1, 3, 3), filter_of(3, 4, 1, 2, 2)
#: name -> module, the shape of its input, the shape of the filter that HTP gets
CASES: dict[str, tuple[Function, tuple[int, ...], tuple[int, ...]]] = {
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
    "one wide by steps of 2": (
        lambda x: f.conv2d(x, TALL, stride=2, padding=(0, 1)),
        (1, 4, 9, 7),
        (3, 2, 4, 5),
    ),
    "one high by steps of 2, each channel": (
        lambda x: f.conv2d(x, LEVEL, stride=2, padding=1, groups=4),
        (1, 4, 9, 7),
        (2, 4, 1, 4),
    ),
    "one wide by steps of 2 of a volume": (
        lambda x: f.conv3d(x, DEEP, stride=(1, 2, 2), padding=(0, 0, 1)),
        (1, 4, 3, 9, 7),
        (1, 3, 2, 4, 3),
    ),
    "one wide by steps of 2 without zeros beside": (
        lambda x: f.conv2d(x, TALL, stride=2, padding=(1, 0)),
        (1, 4, 9, 7),
        (3, 1, 4, 5),
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


@pytest.mark.parametrize("name", CASES)
def test_a_convolution_is_right(name: str, htp: Htp) -> None:
    call, shape, filter_shape = CASES[name]
    torch.manual_seed(0)
    ran = htp.run(call, (torch.randn(shape),))
    (op,) = (n for n in ran.graph.ops if n.op in ("Conv2d", "DepthWiseConv2d", "Conv3d"))
    assert ran.graph.tensors[str(op.inputs[1])].shape == filter_shape
    assert ran.error <= 1e-2


def test_an_input_filter_is_refused_with_the_rule() -> None:
    module = Call(lambda x, w: f.conv1d(x, w, padding=2))
    program = Program(export(module, (torch.randn(1, 4, 8), FIVE)))
    (row,) = (r for r in check_nodes(program, HTP).rows if r.verdict == "rejected")
    assert "HTP-0007" in {r["rule"] for r in row.reasons}
    assert check_nodes(program, Target("HTP", "SM8350", execution="emulator")).complete


def test_the_bias_of_a_single_channel_has_an_axis_scale() -> None:
    """HTP-0442: HTP drops it otherwise; tests/programs/torch/test_quantized.py checks the numbers."""

    def given(channels: int, along: bool) -> LoweredOp:
        of_weights = Quant("AXIS_SCALE_OFFSET", (0.002,) * channels, (0,) * channels, 3)
        of_bias = Quant("AXIS_SCALE_OFFSET", (0.0001,) * channels, (0,) * channels, 0)
        one = Quant("SCALE_OFFSET", (0.0001,), (0,))

        def held(name: str, shape: tuple[int, ...], dtype: str, quant: Quant) -> TensorRef:
            static = name in ("w", "b")
            return TensorRef(shape, dtype, static=static, key=name, quant=quant, base_shape=shape)

        plain = Quant("SCALE_OFFSET", (0.05,), (-128,))
        inputs = {
            "x": held("x", (1, 4, 4, 8), "uq8", plain),
            "filter": held("w", (1, 1, 8, channels), "sq8", of_weights),
            "bias": held("b", (channels,), "sq32", of_bias if along else one),
        }
        params = [tensor_param("stride", "u32", [1, 1]), tensor_param("pad_amount", "u32", [[0, 0], [0, 0]])]
        y = held("y", (1, 4, 4, channels), "uq8", plain)
        return lowered_op("Conv2d", inputs=inputs, params=params, outputs={"y": y})

    assert avoided(given(1, along=False)) == {"HTP-0442"}
    (made,) = obeying(given(1, along=False))
    assert made.inputs[2] is not None and made.inputs[2].quant == Quant(
        "AXIS_SCALE_OFFSET", (0.0001,), (0,), 0
    )
    assert not avoided(made) | avoided(given(1, along=True)) | avoided(given(4, along=False))
