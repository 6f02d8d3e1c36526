"""Linear layers of images become 1 by 1 convolutions, and norms of rows skip a Reshape."""

from __future__ import annotations

import pytest
from graphs import CPU, HTP, Made, agree, kinds, numbers, passed

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.lower.passes import optimize


def block(*image: int, activation: str = "ElementWiseNeuron") -> QnnGraph:
    """ConvNeXt's linear layers: [1, H, W, C] -> rows -> GELU -> rows -> [1, H, W, C]."""
    made = Made()
    x = made.op("Relu", [made.input(*image)], image)
    rows, channels = image[0] * image[1] * image[2], image[3]
    y = made.op("FullyConnected", [x, made.random(12, channels), made.random(12)], (rows, 12))
    gelu = [ParamConfig("operation", "u32", 1)] if activation == "ElementWiseNeuron" else []
    y = made.op(activation, [y], (rows, 12), gelu)
    y = made.op("FullyConnected", [y, made.random(channels, 12)], (rows, channels))
    y = made.op("Reshape", [y], image)
    return made.output(made.op("ElementWiseAdd", [x, y], image))


@pytest.mark.parametrize("activation", ["ElementWiseNeuron", "Tanh"])
@pytest.mark.parametrize("target", [HTP, CPU])
def test_activations_between_keep_the_image_shape(activation: str, target: Target) -> None:
    graph = block(1, 4, 6, 8, activation=activation)
    after = optimize(graph, target)
    agree(graph, after.graph, 1e-6)
    assert kinds(after.graph) == ["Relu", "Conv2d", activation, "Conv2d", "ElementWiseAdd"]
    assert {after.graph.tensors[op.outputs[0]].shape for op in after.graph.ops} == {
        (1, 4, 6, 8),
        (1, 4, 6, 12),
    }


@pytest.mark.parametrize("image", [(2, 4, 6, 8), (1, 1, 6, 8), (1, 6, 1, 8)])
def test_batches_and_single_rows_are_unchanged(image: tuple[int, ...]) -> None:
    assert passed(block(*image), "linear-as-convolution").counts == {}


@pytest.mark.parametrize("kind", ["LayerNorm", "RmsNorm"])
def test_row_norms_use_the_wider_shape(kind: str) -> None:
    """[1, 7, 8] -> [7, 1, 8] -> LayerNorm: the Reshape moves after it; from [7, 1, 8] to [1, 7, 8] it stays."""
    for before, after, moves in (((1, 7, 8), (7, 1, 8), True), ((7, 1, 8), (1, 7, 8), False)):
        made = Made()
        x = made.op("Reshape", [made.op("Relu", [made.input(*before)], before)], after)
        params = [ParamConfig("epsilon", "f32", 1e-5), numbers("axes", 2)]
        graph = made.output(made.op(kind, [x, made.random(8), made.random(8)], after, params))
        found = passed(graph, "read-rows")
        agree(graph, found.graph, 1e-6)
        assert kinds(found.graph) == (["Relu", kind, "Reshape"] if moves else ["Relu", "Reshape", kind])


def test_a_norm_of_split_rows_is_unchanged() -> None:
    made = Made()
    x = made.op("Reshape", [made.op("Relu", [made.input(1, 7, 8)], (1, 7, 8))], (1, 7, 2, 4))
    params = [ParamConfig("epsilon", "f32", 1e-5), numbers("axes", 3)]
    graph = made.output(made.op("LayerNorm", [x, made.random(4), made.random(4)], (1, 7, 2, 4), params))
    assert passed(graph, "read-rows").counts == {}
