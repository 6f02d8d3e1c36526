"""Common chains of ops are fused into one; similar chains are not.  The chains come from lowered PyTorch functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from graphs import HTP, Made, agree, kinds, number, numbers, passed
from of_torch import Of, Tensor
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.core.graph import QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.execute.compile.model import lowered
from opdb.programs.torch.export import export
from opdb.runtime.kernels import run_graph

torch.manual_seed(3)
GAMMA, BETA = torch.rand(16) + 0.5, torch.rand(16)
V68 = Target("HTP", "SM8350")


def graph_of(function: Callable[[Tensor], Tensor], target: Target = HTP) -> QnnGraph:
    with torch.no_grad():
        program = export(Of(function).eval(), (torch.rand(1, 6, 16),), "of")
    made = lowered(program, target, "of")[1]
    assert made is not None
    return made


def centered(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def softmax(x: Tensor) -> Tensor:
    power = torch.exp(x - x.amax(-1, keepdim=True))
    return power / power.sum(-1, keepdim=True)


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], int, float]] = {
    "gelu by erf": (lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))), 1, 1e-6),
    "gelu by tanh": (
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        1,
        5e-4,
    ),
    "gelu by tanh of a product": (
        lambda x: 0.5 * x * (1 + torch.tanh(x * 0.79788456 * (1 + 0.044715 * x * x))),
        1,
        5e-4,
    ),
    "hard swish": (lambda x: x * functional.relu6(x + 3) / 6, 3, 1e-6),
    "hard swish by a product": (lambda x: x * (functional.relu6(x + 3) * (1 / 6)), 3, 1e-6),
    "hard swish by its gate": (lambda x: x * functional.hardsigmoid(x), 3, 1e-6),
    "sigmoid": (lambda x: 1 / (1 + torch.exp(-x)), 6, 1e-6),
}
NORMS: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "softmax": (softmax, "Softmax"),
    "layer norm": (
        lambda x: centered(x) / torch.sqrt((centered(x) ** 2).mean(-1, keepdim=True) + 1e-5) * GAMMA + BETA,
        "LayerNorm",
    ),
    "layer norm by a reciprocal": (
        lambda x: centered(x) * torch.rsqrt((centered(x) * centered(x)).mean(-1, keepdim=True) + 1e-5),
        "LayerNorm",
    ),
    "rms norm": (lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * GAMMA, "RmsNorm"),
    "rms norm by a quotient": (
        lambda x: GAMMA * (x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6)),
        "RmsNorm",
    ),
    "normalize": (lambda x: functional.normalize(x, dim=-1), "L2Norm"),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_written_out_functions_are_fused(name: str) -> None:
    function, operation, bound = FUNCTIONS[name]
    before = graph_of(function)
    after = passed(before, "fuse-functions").graph
    assert kinds(after) == ["ElementWiseNeuron"] and after.ops[0].params[0].value == operation
    (x,) = before.inputs
    values = np.linspace(-12, 12, 96, dtype=np.float32).reshape(x.shape)
    (got,) = run_graph(after, {x.name: values}).values()
    want = function(torch.from_numpy(values)).numpy()
    assert (np.abs(got - want) <= bound * np.maximum(1, np.abs(want))).all()


@pytest.mark.torch
@pytest.mark.parametrize("name", list(NORMS))
def test_written_out_norms_are_fused(name: str) -> None:
    function, op = NORMS[name]
    before = graph_of(function)
    after = passed(before, "drop-identities", "merge-equal", "fuse-norms").graph
    assert kinds(after) == [op]
    agree(before, after, 1e-6)


@pytest.mark.torch
def test_chains_are_kept_if_the_target_refuses_the_op() -> None:
    """v68 finalizes no graph with GELU or RmsNorm of float32 (HTP-0042, HTP-0086)."""
    for function in (FUNCTIONS["gelu by tanh"][0], NORMS["rms norm"][0]):
        before = graph_of(function, V68)
        assert passed(before, "fuse-functions", "fuse-norms", target=V68).graph == before


OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "erf of another quotient": lambda x: x * 0.5 * (1 + torch.erf(x / 1.5)),
    "hard swish from 2.9 on": lambda x: x * functional.relu6(x + 2.9) / 6,
    "silu": lambda x: x * torch.sigmoid(x),
    "two tensors": lambda x: x * functional.relu6(x + 3) / 6 + x.roll(1, -1),
    "largest of another axis": lambda x: (lambda p: p / p.sum(-1, keepdim=True))(
        torch.exp(x - x.amax(1, keepdim=True))
    ),
    "mean of another axis": lambda x: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-6),
    "a number is subtracted": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) - 0.1),
    "a number beside a sum": lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-3),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", list(OTHERS))
def test_similar_chains_are_not_fused(name: str) -> None:
    before = graph_of(OTHERS[name])
    after = passed(before, "fuse-functions", "fuse-norms").graph
    fused = set(kinds(after)) & {"Softmax", "RmsNorm", "L2Norm", "LayerNorm"}
    operations = [p.value for op in after.ops for p in op.params if p.name == "operation"]
    assert not fused and operations != [1]


def hard_swish(made: Made, x: str) -> list[str]:
    shape = made.graph.tensors[x].shape
    limits = [number("operation", 5), number("min_value", 0.0, "f32"), number("max_value", 6.0, "f32")]
    y = made.op("ElementWiseAdd", [x, made.constant([3.0])], shape)
    gate = made.op("ElementWiseNeuron", [y], shape, limits)
    y = made.op("ElementWiseMultiply", [x, gate], shape)
    return [gate, made.op("ElementWiseDivide", [y, made.constant([6.0])], shape)]


def test_a_chain_with_another_reader_is_not_fused() -> None:
    made = Made()
    gate, y = hard_swish(made, made.input(2, 3))
    before = made.output(y, made.op("Relu", [gate], (2, 3)))
    assert passed(before, "fuse-functions").counts == {}


def test_ops_with_tensor_constants_are_not_fused() -> None:
    made = Made()
    x = made.op("ElementWiseAdd", [made.input(2, 3), made.random(2, 3)], (2, 3))
    before = made.output(hard_swish(made, x)[1])
    assert kinds(passed(before, "fuse-functions").graph) == ["ElementWiseAdd", "ElementWiseNeuron"]
    made = Made()
    y = made.op("ElementWiseMultiply", [made.input(2, 3), made.random(2, 3)], (2, 3))
    assert passed(made.output(made.op("Relu", [y], (2, 3))), "fuse-functions").counts == {}


def test_a_function_after_an_elementwise_op_is_fused() -> None:
    """x is itself a sum of two tensors: the chain begins after it."""
    made = Made()
    x = made.op("ElementWiseAdd", [made.input(2, 3), made.input(2, 3)], (2, 3))
    before = made.output(hard_swish(made, x)[1])
    after = passed(before, "fuse-functions").graph
    assert kinds(after) == ["ElementWiseAdd", "ElementWiseNeuron"]
    agree(before, after)


ACTIVE: list[tuple[str, list[ParamConfig]]] = [
    ("Relu", []),
    ("ElementWiseNeuron", [number("operation", 1)]),
    ("Sigmoid", []),
]


@pytest.mark.parametrize(("kind", "params"), ACTIVE)
def test_an_activation_moves_before_views(kind: str, params: list[Any]) -> None:
    made = Made()
    y = made.op("FullyConnected", [made.input(6, 4), made.random(8, 4)], (6, 8))
    y = made.op("Reshape", [y], (2, 3, 8))
    y = made.op("Transpose", [y], (3, 2, 8), [numbers("perm", 1, 0, 2)])
    before = made.output(made.op(kind, [y], (3, 2, 8), params))
    after = passed(before, "move-activations").graph
    assert kinds(after) == ["FullyConnected", kind, "Reshape", "Transpose"]
    agree(before, after, None)


def test_an_activation_moves_before_a_concat_of_sums() -> None:
    made = Made()
    parts = [made.op("ElementWiseAdd", [made.input(2, n), made.input(2, n)], (2, n)) for n in (3, 4)]
    joined = made.op("Concat", parts, (2, 7), [number("axis", 1)])
    before = made.output(made.op("Relu", [joined], (2, 7)))
    after = passed(before, "move-activations").graph
    assert kinds(after) == ["ElementWiseAdd", "ElementWiseAdd", "Relu", "Relu", "Concat"]
    agree(before, after, None)


def test_a_linear_layer_skips_a_reshape_of_its_rows() -> None:
    """Linear, GELU, Linear in three dimensions: the Reshape between them is removed."""
    made = Made()
    y = made.op("FullyConnected", [made.input(2, 3, 4), made.random(8, 4)], (6, 8))
    y = made.op("Reshape", [y], (2, 3, 8))
    y = made.op("ElementWiseNeuron", [y], (2, 3, 8), [number("operation", 1)])
    before = made.output(made.op("FullyConnected", [y, made.random(5, 8)], (6, 5)))
    after = passed(before, "move-activations", "read-rows").graph
    assert kinds(after) == ["FullyConnected", "ElementWiseNeuron", "FullyConnected"]
    agree(before, after, None)
    made = Made()  # other rows
    y = made.op("Reshape", [made.input(2, 8)], (4, 4))
    before = made.output(made.op("FullyConnected", [y, made.random(5, 4)], (4, 5)))
    assert passed(before, "read-rows").counts == {}


def test_activations_that_cannot_fuse_do_not_move() -> None:
    made = Made()  # nothing to fuse with
    y = made.op("Transpose", [made.input(3, 4)], (4, 3), [numbers("perm", 1, 0)])
    assert passed(made.output(made.op("Relu", [y], (4, 3))), "move-activations").counts == {}
    made = Made()  # another op reads the view
    y = made.op("FullyConnected", [made.input(6, 4), made.random(8, 4)], (6, 8))
    y = made.op("Reshape", [y], (2, 3, 8))
    ends = made.op("Relu", [y], (2, 3, 8)), made.op("Tanh", [y], (2, 3, 8))
    assert passed(made.output(*ends), "move-activations").counts == {}
    made = Made()  # a view that changes the last dimension
    y = made.op("FullyConnected", [made.input(6, 4), made.random(8, 4)], (6, 8))
    y = made.op("Reshape", [y], (6, 2, 4))
    assert passed(made.output(made.op("Relu", [y], (6, 2, 4))), "move-activations").counts == {}


def test_a_tile_before_a_broadcasting_op_is_removed() -> None:
    made = Made()
    row = made.op("Tile", [made.input(2, 1)], (2, 5), [numbers("multiples", 1, 5)])
    before = made.output(made.op("ElementWiseMultiply", [made.input(2, 5), row], (2, 5)))
    after = passed(before, "drop-identities").graph
    assert kinds(after) == ["ElementWiseMultiply"]
    agree(before, after, None)
    made = Made()
    row = made.op("Tile", [made.input(2, 1)], (2, 5), [numbers("multiples", 1, 5)])
    before = made.output(made.op("ElementWiseMultiply", [row, row], (2, 5)), made.op("Relu", [row], (2, 5)))
    assert passed(before, "drop-identities").counts == {}
