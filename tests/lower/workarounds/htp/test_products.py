"""Products of floats between views, on HTP's library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from htp_module import Htp
from obeying import obeying
from torch import Tensor
from torch.nn import functional as f

from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef

pytestmark = pytest.mark.vendor
WEIGHT = torch.linspace(-1, 1, 30).reshape(5, 6)
WIDE = torch.linspace(-1, 1, 60).reshape(10, 6)
Call = Callable[..., Tensor]
#: name -> module, shapes of its inputs, the op that the product becomes
CHAINS: dict[str, tuple[Call, tuple[tuple[int, ...], ...], str]] = {
    "columns split and joined": (
        lambda x: f.linear(x.view(4, 3, 6), WEIGHT).flatten(1),
        ((4, 18),),
        "Conv2d",
    ),
    "by an input": (lambda x, w: f.linear(x.view(4, 3, 6), w).flatten(1), ((4, 18), (5, 6)), "MatMul"),
    "seen as rows": (lambda x, y: (x.view(4, 6) @ y).view(4, 1, 5), ((4, 3, 2), (6, 5)), "MatMul"),
    "bmm of one": (
        lambda x, y: torch.bmm(x.view(1, 4, 6), y).view(4, 1, 5),
        ((4, 6, 1), (1, 6, 5)),
        "MatMul",
    ),
    "a constant seen as rows": (lambda x: (x.view(4, 6) @ WEIGHT.t()).view(4, 1, 5), ((4, 3, 2),), "Conv2d"),
    "columns stay": (lambda x: f.linear(x.view(12, 6), WEIGHT).view(4, 3, 5), ((4, 3, 6),), "FullyConnected"),
    "columns split behind it": (
        lambda x: f.linear(x.view(12, 6), WEIGHT).view(1, 12, 5, 1).permute(0, 2, 1, 3),
        ((1, 12, 6),),
        "FullyConnected",
    ),
    "columns joined before it": (
        lambda x: f.linear(x.view(12, 6), WEIGHT).view(1, 12, 5),
        ((1, 12, 2, 3),),
        "FullyConnected",
    ),
    "columns split on both sides": (
        lambda x: f.linear(x.view(12, 6), WEIGHT).view(1, 12, 5, 1),
        ((1, 12, 2, 3),),
        "Conv2d",
    ),
    "no view after": (lambda x: f.linear(x.view(12, 6), WEIGHT), ((4, 18),), "FullyConnected"),
    "seen in five dimensions": (
        lambda x: f.linear(x.view(4, 3, 6), WIDE).view(1, 4, 3, 2, 5) * 2,
        ((4, 18),),
        "MatMul",
    ),
    "seen in five dimensions, the columns whole": (
        lambda x: f.linear(x.view(4, 3, 6), WIDE).view(1, 12, 1, 1, 10) * 2,
        ((4, 18),),
        "MatMul",
    ),
    "seen in five dimensions behind a sum": (
        lambda x: (f.conv1d(x.mT, WIDE[..., None]).mT * 0.5 + 1).reshape(1, 3, 4, 2, 5) * 2,
        ((1, 12, 6),),
        "MatMul",
    ),
    "seen in five dimensions of other columns": (
        lambda x: f.linear(x.view(4, 3, 6), WIDE).view(1, 4, 6, 1, 5) * 2,
        ((4, 18),),
        "Conv2d",
    ),
    "a convolution of lines, seen in five dimensions": (
        lambda x: f.conv1d(x.mT, WIDE[..., None]).mT.reshape(1, 3, 4, 2, 5) * 2,
        ((1, 12, 6),),
        "MatMul",
    ),
    "a convolution of images, seen in five dimensions": (
        lambda x: f.conv2d(x, WIDE[..., None, None]).permute(0, 2, 3, 1).reshape(1, 3, 4, 2, 5) * 2,
        ((1, 6, 3, 4),),
        "Conv2d",
    ),
    "several pairs": (lambda x, y: (x.view(2, 4, 6) @ y).view(8, 1, 5), ((8, 6, 1), (2, 6, 5)), "MatMul"),
    "a batch by the matrices of one": (
        lambda x, y: x.view(2, 1, 4, 8) @ y.transpose(-1, -2),
        ((2, 4, 8), (1, 1, 2, 8)),
        "MatMul",
    ),
    "a batch by constant matrices": (
        lambda x: (x.view(2, 3, 4, 6) @ WEIGHT.t().view(1, 1, 6, 5).tile(1, 3, 1, 1)) * 0.5,
        ((48, 3, 1),),
        "MatMul",
    ),
}


def tensor(name: str, shape: tuple[int, ...], scale: float, offset: int) -> TensorRef:
    quant = Quant("SCALE_OFFSET", (scale,), (offset,))
    return TensorRef(shape, "uq16", key=name, quant=quant, base_shape=shape)


@pytest.mark.parametrize("name", CHAINS)
def test_a_product_between_views_is_right(name: str, htp: Htp) -> None:
    call, shapes, op = CHAINS[name]
    torch.manual_seed(0)
    ran = htp.run(call, tuple(torch.randn(shape) for shape in shapes))
    assert [n.op for n in ran.graph.ops if n.op in ("FullyConnected", "MatMul", "Conv2d")] == [op]
    assert ran.error <= 1e-2


# -- HTP-0433


def linear_and_relu(images: int, columns: int) -> list[LoweredOp]:
    """A FullyConnected of [images, 4, columns] with a 4-bit weight, and the Relu that shows the fault."""
    steps = np.random.default_rng(0).integers(-7, 8, (8, columns)).astype(np.int8)
    bits = Quant("BW_AXIS_SCALE_OFFSET", (2**-5,) * 8, (0,) * 8, 0, 4)
    x = tensor("x", (images, 4, columns), 2**-13, -32768)
    weight = TensorRef(
        (8, columns), "sq8", key="w", data=steps, static=True, quant=bits, base_shape=(8, columns)
    )
    z = tensor("z", (4 * images, 8), 2**-11, -32768)
    linear = lowered_op("FullyConnected", inputs={"x": x, "weight": weight}, params=[], outputs={"y": z})
    y = tensor("y", (4 * images, 8), 2**-9, 0)
    return [linear, lowered_op("Relu", inputs={"x": z}, params=[], outputs={"y": y})]


@pytest.mark.parametrize(
    ("images", "columns", "shape"), [(2, 24, (8, 24)), (1, 24, (1, 4, 24)), (2, 16, (2, 4, 16))]
)
def test_a_4_bit_linear_layer_reads_rows(images: int, columns: int, shape: tuple[int, ...]) -> None:
    linear, _ = linear_and_relu(images, columns)
    (made,) = obeying(linear)
    assert made.inputs[0] is not None and made.inputs[0].shape == shape
    assert made.inputs[1:] == linear.inputs[1:] and made.outputs == linear.outputs
