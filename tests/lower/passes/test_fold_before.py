"""Products and sums before convolutions and products are folded into filter and bias; a sum before zero padding is kept."""

from __future__ import annotations

import pytest
from graphs import Made, agree, kinds, number, numbers, pads, passed

from opdb.core.op_config import ParamConfig

PASS = "fold-normalization"
IMAGE = [numbers("stride", 1, 1), pads(0, 0, 0, 0)]
Shape = tuple[int, ...]
KINDS: dict[str, tuple[Shape, Shape, Shape, list[ParamConfig]]] = {
    "Conv2d": ((1, 5, 5, 4), (3, 3, 4, 6), (1, 3, 3, 6), IMAGE),
    "Conv2d groups": ((1, 5, 5, 4), (3, 3, 2, 6), (1, 3, 3, 6), [*IMAGE, number("group", 2)]),
    "DepthWiseConv2d": ((1, 5, 5, 4), (3, 3, 1, 8), (1, 3, 3, 8), IMAGE),
    "FullyConnected": ((6, 4), (5, 4), (6, 5), []),
    "MatMul": ((2, 3, 4), (4, 5), (2, 3, 5), []),
    "MatMul transposed": ((3, 4), (5, 4), (3, 5), [number("transpose_in1", True, "bool8")]),
}


def normalized(made: Made, x: str) -> str:
    """(x - mean) / deviation along the last dimension."""
    shape = made.graph.tensors[x].shape
    x = made.op("ElementWiseSubtract", [x, made.random(shape[-1])], shape)
    return made.op("ElementWiseDivide", [x, made.random(shape[-1], low=0.2, high=0.5)], shape)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_normalization_is_folded_into_its_reader(kind: str, bias: bool) -> None:
    made = Made()
    x, weights, y, params = KINDS[kind]
    inputs = [
        normalized(made, made.input(*x)),
        made.random(*weights),
        *([made.random(y[-1])] if bias else []),
    ]
    before = made.output(made.op(kind.split()[0], inputs, y, params))
    after = passed(before, PASS)
    assert kinds(after.graph) == [kind.split()[0]] and after.counts == {PASS: 2}
    agree(before, after.graph, 1e-5)


def test_only_the_product_is_folded_before_zero_padding() -> None:
    """torchvision's normalization, in NCHW before a Transpose."""
    made = Made()
    shape = (1, 3, 6, 6)
    x = made.op("ElementWiseSubtract", [made.input(*shape), made.random(1, 3, 1, 1)], shape)
    x = made.op("ElementWiseDivide", [x, made.random(1, 3, 1, 1, low=0.2, high=0.5)], shape)
    x = made.op("Transpose", [x], (1, 6, 6, 3), [numbers("perm", 0, 2, 3, 1)])
    frame = [numbers("stride", 2, 2), pads(1, 1, 1, 1)]
    before = made.output(made.op("Conv2d", [x, made.random(3, 3, 3, 4)], (1, 3, 3, 4), frame))
    after = passed(before, PASS).graph
    assert kinds(after) == ["ElementWiseSubtract", "Transpose", "Conv2d"]
    agree(before, after, 1e-5)


def test_shared_or_row_wise_scalings_are_not_folded() -> None:
    made = Made()
    shape = (1, 5, 5, 4)
    y = made.op("ElementWiseMultiply", [made.input(*shape), made.random(4)], shape)
    twice = [made.op("Conv2d", [y, made.random(3, 3, 4, 6)], (1, 3, 3, 6), IMAGE) for _ in range(2)]
    before = made.output(*twice)
    assert passed(before, PASS).counts == {}
    made = Made()
    y = made.op("ElementWiseMultiply", [made.input(*shape), made.random(5, 1)], shape)
    before = made.output(made.op("Conv2d", [y, made.random(3, 3, 4, 6)], (1, 3, 3, 6), IMAGE))
    assert passed(before, PASS).counts == {}
    made = Made()
    y = made.op("ElementWiseMultiply", [made.input(2, 3, 2), made.random(2)], (2, 3, 2))
    before = made.output(made.op("FullyConnected", [y, made.random(5, 4)], (3, 5)))
    assert passed(before, PASS).counts == {}  # rows of the weights read several rows of the input
