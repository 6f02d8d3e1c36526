"""Batchnorms, products and sums after convolutions and products are folded into filter and bias, if allowed."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import Made, agree, drawn, kinds, number, numbers, pads, passed

from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.runtime.kernels import run_graph

PASS = "fold-batchnorm"
STRIDE, NO_PADS = numbers("stride", 1, 1), pads(1, 1, 1, 1)


def convolution(made: Made, x: str, channels: int = 8, bias: bool = False) -> str:
    """3x3 with zero padding, over 6 by 6 pixels."""
    read = made.graph.tensors[x].shape[-1]
    inputs = [x, made.random(3, 3, read, channels), *([made.random(channels)] if bias else [])]
    return made.op("Conv2d", inputs, (1, 6, 6, channels), [STRIDE, NO_PADS])


def batchnorm(made: Made, x: str) -> str:
    shape = made.graph.tensors[x].shape
    weights = [made.random(shape[-1], low=0.2, high=2.0), made.random(shape[-1])]
    return made.op("Batchnorm", [x, *weights], shape)


def of_kind(kind: str, bias: bool) -> QnnGraph:
    """A Batchnorm after an op with a filter."""
    made = Made()
    image = numbers("stride", 1, 1), pads(0, 0, 0, 0)
    volume = numbers("stride", 1, 1, 1), pads(0, 0, 0, 0, 0, 0)
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], list[ParamConfig]]] = {
        "Conv2d": ((1, 5, 5, 4), (3, 3, 4, 6), (1, 3, 3, 6), [*image]),
        "Conv2d groups": ((1, 5, 5, 4), (3, 3, 2, 6), (1, 3, 3, 6), [*image, number("group", 2)]),
        "DepthWiseConv2d": ((1, 5, 5, 4), (3, 3, 1, 8), (1, 3, 3, 8), [*image]),
        "Conv3d": ((1, 3, 4, 4, 2), (2, 2, 2, 2, 3), (1, 2, 3, 3, 3), [*volume]),
        "TransposeConv2d": ((1, 4, 4, 3), (2, 2, 3, 5), (1, 5, 5, 5), [*image]),
        "TransposeConv2d groups": ((1, 4, 4, 4), (2, 2, 4, 3), (1, 5, 5, 6), [*image, number("group", 2)]),
        "FullyConnected": ((6, 4), (5, 4), (6, 5), []),
        "MatMul": ((2, 3, 4), (4, 5), (2, 3, 5), []),
        "MatMul transposed": ((3, 4), (5, 4), (3, 5), [number("transpose_in1", True, "bool8")]),
    }
    x, weights, y, params = shapes[kind]
    inputs = [made.input(*x), made.random(*weights), *([made.random(y[-1])] if bias else [])]
    return made.output(batchnorm(made, made.op(kind.split()[0], inputs, y, params)))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        "Conv2d", "Conv2d groups", "DepthWiseConv2d", "Conv3d", "TransposeConv2d", "TransposeConv2d groups",
        "FullyConnected", "MatMul", "MatMul transposed",
    ],
)  # fmt: skip
def test_a_batchnorm_is_folded_into_its_producer(kind: str, bias: bool) -> None:
    before = of_kind(kind, bias)
    made = passed(before, PASS)
    assert kinds(made.graph) == [kind.split()[0]] and made.counts == {PASS: 1}
    assert len(made.graph.ops[0].inputs) == 3 and len(made.graph.tensors) == 4
    agree(before, made.graph)


@pytest.mark.parametrize("what", ["Add", "Subtract", "Multiply", "Divide", "from", "number"])
def test_products_and_sums_with_constants_are_folded(what: str) -> None:
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    factors = made.random(1, 1, 1, 8, low=0.5, high=2.0)
    if what == "from":
        y = made.op("ElementWiseSubtract", [factors, y], (1, 6, 6, 8))
    elif what == "number":
        y = made.op("ElementWiseBinary", [y, made.constant([3.0])], (1, 6, 6, 8), [number("operation", 2)])
    else:
        y = made.op(f"ElementWise{what}", [y, factors], (1, 6, 6, 8))
    before = made.output(y)
    after = passed(before, PASS).graph
    assert kinds(after) == ["Conv2d"]
    agree(before, after)


def test_the_four_ops_of_a_batchnorm_are_folded() -> None:
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3), bias=True)
    for what in ("Subtract", "Multiply", "Multiply", "Add"):
        y = made.op(f"ElementWise{what}", [y, made.random(8, low=0.5, high=1.5)], (1, 6, 6, 8))
    before = made.output(made.op("Relu", [y], (1, 6, 6, 8)))
    made_graph = passed(before, PASS)
    assert kinds(made_graph.graph) == ["Conv2d", "Relu"] and made_graph.counts == {PASS: 4}
    agree(before, made_graph.graph)


def test_channels_are_followed_through_views() -> None:
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    y = made.op("Transpose", [y], (1, 8, 6, 6), [numbers("perm", 0, 3, 1, 2)])
    y = made.op("Reshape", [y], (8, 36))
    before = made.output(made.op("ElementWiseMultiply", [y, made.random(8, 1)], (8, 36)))
    after = passed(before, PASS).graph
    assert kinds(after) == ["Conv2d", "Transpose", "Reshape"]
    agree(before, after)


def test_a_scalar_is_moved_before_a_product_of_two_tensors() -> None:
    """Attention: the scale of the scores is folded into the layer that makes the queries."""
    made = Made()
    q = made.op("FullyConnected", [made.input(6, 4), made.random(4, 4)], (6, 4))
    scores = made.op("MatMul", [q, made.input(6, 4)], (6, 6), [number("transpose_in1", True, "bool8")])
    before = made.output(made.op("ElementWiseMultiply", [scores, made.constant([0.5])], (6, 6)))
    after = passed(before, PASS).graph
    assert kinds(after) == ["FullyConnected", "MatMul"]
    agree(before, after)


def stays() -> dict[str, QnnGraph]:
    """Graphs in which nothing may be folded, by the reason."""
    found = {}
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    found["another op reads the convolution"] = made.output(
        batchnorm(made, y), made.op("Relu", [y], (1, 6, 6, 8))
    )
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    found["the convolution's result is an output"] = made.output(y, batchnorm(made, y))
    made = Made()
    y = made.op("Conv2d", [made.input(1, 6, 6, 3), made.input(3, 3, 3, 8)], (1, 6, 6, 8), [STRIDE, NO_PADS])
    found["the filter is no constant"] = made.output(batchnorm(made, y))
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    found["one for each row"] = made.output(
        made.op("ElementWiseMultiply", [y, made.random(1, 6, 1, 1)], (1, 6, 6, 8))
    )
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    found["it is divided by zero"] = made.output(
        made.op("ElementWiseDivide", [y, made.constant([0.0])], (1, 6, 6, 8))
    )
    made = Made()
    y = convolution(made, made.input(1, 6, 6, 3))
    y = made.op("Reshape", [y], (1, 6, 6, 2, 4))
    found["channels are divided"] = made.output(
        made.op("ElementWiseMultiply", [y, made.random(4)], (1, 6, 6, 2, 4))
    )
    return found


@pytest.mark.parametrize("why", list(stays()))
def test_unfoldable_graphs_are_unchanged(why: str) -> None:
    before = stays()[why]
    made = passed(before, PASS)
    assert made.counts == {} and made.graph == before


def test_shared_constants_are_not_changed() -> None:
    """Two convolutions share a filter: the second one is unchanged."""
    made = Made()
    x, shared = made.input(1, 6, 6, 3), made.random(3, 3, 3, 8)
    first, second = (made.op("Conv2d", [x, shared], (1, 6, 6, 8), [STRIDE, NO_PADS]) for _ in range(2))
    before = made.output(batchnorm(made, first), second)
    after = passed(before, PASS).graph
    assert kinds(after) == ["Conv2d", "Conv2d"] and after.ops[0].inputs[1] == shared
    agree(before, after)


@pytest.mark.vendor
def test_folded_graphs_give_the_same_results_on_qnn_cpu() -> None:
    made = Made()
    y = batchnorm(made, convolution(made, made.input(1, 6, 6, 3), bias=True))
    before = made.output(batchnorm(made, convolution(made, made.op("Relu", [y], (1, 6, 6, 8)))))
    after = passed(before, PASS).graph
    given = drawn(before)
    with VendorWorker("CPU") as worker:
        results = [worker.run(graph, given) for graph in (before, after)]
    assert [r.stage for r in results] == ["done", "done"]
    (a,), (b,) = (r.outputs.values() for r in results)
    np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(b, next(iter(run_graph(before, given).values())), rtol=1e-5, atol=1e-4)
