"""UnPack and Split of five dimensions: attention's query, key and value; bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from graphs import HTP, Made, agree, kinds, number, numbers, passed

from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.op_config import Quant
from opdb.lower.passes import optimize
from opdb.runtime.kernels import run_graph


def parts(made: Made, kind: str, x: str, shape: tuple[int, ...], params: list, count: int = 3) -> list[str]:
    names = [made.op(kind, [x], shape, params) for _ in range(count)]
    made.graph.ops[-count:] = []
    made.graph.ops.append(GraphOp("parting", kind, (x,), tuple(params), tuple(names)))
    return names


def attention(quant: Quant | None = None) -> QnnGraph:
    """[1, 6, 24] -> [1, 6, 3, 2, 4] -> [3, 1, 2, 6, 4] -> three of [1, 2, 6, 4] -> q @ k, v."""
    made = Made()
    x = made.input(1, 6, 24, dtype="uq8" if quant else "f32", quant=quant)
    x = made.op("Relu", [x], (1, 6, 24))
    x = made.op("Reshape", [x], (1, 6, 3, 2, 4))
    x = made.op("Transpose", [x], (3, 1, 2, 6, 4), [numbers("perm", 2, 0, 3, 1, 4)])
    q, k, v = parts(made, "UnPack", x, (1, 2, 6, 4), [number("axis", 0)])
    turned = made.op("Transpose", [k], (1, 2, 4, 6), [numbers("perm", 0, 1, 3, 2)])
    scores = made.op("MatMul", [q, turned], (1, 2, 6, 6))
    return made.output(made.op("MatMul", [scores, v], (1, 2, 6, 4)))


@pytest.mark.parametrize("quant", [None, Quant("SCALE_OFFSET", (0.02,), (-128,))])
def test_query_key_and_value_become_a_3d_split(quant: Quant | None) -> None:
    graph = attention(quant)
    after = passed(graph, "split-unpacks", target=HTP).graph
    agree(graph, after, None)
    assert kinds(after)[3:7] == ["Split", "Reshape", "Reshape", "Reshape"]
    after = optimize(graph, HTP).graph
    agree(graph, after, None)
    assert kinds(after)[:2] == ["Relu", "Split"] and "UnPack" not in kinds(after)
    assert all(len(after.tensors[n].shape) <= 4 for op in after.ops for n in (*op.inputs, *op.outputs) if n)


def test_unpacks_of_four_dimensions_are_kept() -> None:
    made = Made()
    graph = made.output(*parts(made, "UnPack", made.input(3, 2, 6, 4), (2, 6, 4), [number("axis", 0)]))
    assert passed(graph, "split-unpacks", target=HTP).counts == {}


@pytest.mark.parametrize("axis", range(5))
def test_unpacks_along_every_axis_become_splits(axis: int) -> None:
    made = Made()
    shape = (2, 3, 2, 3, 2)
    rest = tuple(d for i, d in enumerate(shape) if i != axis)
    names = parts(made, "UnPack", made.input(*shape), rest, [number("axis", axis)], shape[axis])
    graph = made.output(*names)
    after = passed(graph, "split-unpacks", target=HTP).graph
    agree(graph, after, None)
    assert kinds(after) == ["Split", *["Reshape"] * shape[axis]]


@pytest.mark.parametrize("axis, goes", [(0, True), (1, True), (2, False), (4, True)])
def test_a_split_moves_before_a_reshape(axis: int, goes: bool) -> None:
    """[4, 6, 2] -> [4, 3, 2, 1, 2]: along the inner part of a split dimension there are no contiguous pieces."""
    made = Made()
    x = made.op("Reshape", [made.op("Relu", [made.input(4, 6, 2)], (4, 6, 2))], (4, 3, 2, 1, 2))
    shape = (4, 3, 2, 1, 2)
    cut = tuple(1 if i == axis else d for i, d in enumerate(shape))
    rest = tuple(d - 1 if i == axis else d for i, d in enumerate(shape))
    first, second = made.op("Split", [x], cut), made.op("Split", [x], rest)
    made.graph.ops[-2:] = [
        GraphOp("split", "Split", (x,), (number("axis", axis), numbers("split_index", 1)), (first, second))
    ]
    graph = made.output(first, second)
    after = passed(graph, "split-before-reshapes", target=HTP).graph
    agree(graph, after, None)
    assert kinds(after) == (["Relu", "Split", "Reshape", "Reshape"] if goes else ["Relu", "Reshape", "Split"])


@pytest.mark.torch
def test_vision_transformer_attention_uses_splits() -> None:
    """Written like timm's: qkv(x).reshape(B, N, 3, heads, depth).permute(2, 0, 3, 1, 4).unbind(0)."""
    import torch
    from torch import nn

    from opdb.execute.compile.model import lowered
    from opdb.programs.torch.export import export

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            b, n, c = x.shape
            q, k, v = self.qkv(x).reshape(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            y = torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ v
            return self.proj(y.transpose(1, 2).reshape(b, n, c))

    torch.manual_seed(0)
    module, x = Attention().eval(), torch.rand(1, 6, 8)
    _, graph = lowered(export(module, (x,)), HTP, "attention")
    assert graph is not None and "UnPack" not in kinds(graph)
    assert all(len(t.shape) <= 4 for t in graph.tensors.values())
    assert kinds(graph).count("Transpose") == 4
    got = run_graph(graph, {graph.inputs[0].name: x.numpy()})[graph.outputs[0].name]
    with torch.no_grad():
        np.testing.assert_allclose(got, module(x).numpy(), atol=1e-5)
