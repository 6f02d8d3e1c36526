"""The work of nodes that stay on the CPU and that PyTorch's formulas do not cover: nodes of ONNX and TensorFlow Lite files, and loops.

A loop counts as often as it runs.  If only the data decide how often, it counts once, and the figure is a lower bound.
Of two branches the one with more work counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
RECURRENT = ("GRU", "LSTM", "RNN")
PRODUCTS = ("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm")
CONVOLUTIONS = ("Conv", "ConvInteger", "QLinearConv")
_MOVES = """
    Cast CastLike Concat Constant ConstantOfShape DepthToSpace Dropout Expand EyeLike Flatten Gather GatherElements GatherND Identity
    NonZero OneHot Pad Range Reshape Reverse ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile Transpose Trilu
    Unsqueeze Where
"""
#: ONNX operators without arithmetic.
MOVES = frozenset(_MOVES.split())


@dataclass(frozen=True)
class Work:
    """``flops``: see opdb.checks.flops; ``at_least``: True if it is a lower bound, because a loop runs as often as the data say."""

    flops: int
    at_least: bool = False

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.at_least or other.at_least)

    def times(self, count: int | None) -> Work:
        """The work of ``count`` runs; None: unknown."""
        return Work(self.flops * (1 if count is None else count), self.at_least or count is None)


NONE = Work(0)


def larger(works: Sequence[Work]) -> Work:
    """The work of the branch with most work."""
    most = max((w.flops for w in works), default=0)
    return Work(most, any(w.at_least for w in works))


def of_model(model: onnx.ModelProto, results: Sequence[Shape]) -> Work:
    """The work of the only node of a model (opdb.programs.onnx.host_node); ``results``: the shapes of what it makes."""
    from onnx import numpy_helper

    from opdb.programs.onnx.metadata import WORK

    graph = model.graph
    node = graph.node[0]
    for attribute in node.attribute:
        if attribute.name == WORK:
            flops, at_least = attribute.ints
            return Work(flops, bool(at_least))
    shapes = _given(graph) | dict(zip([n for n in node.output if n], results, strict=False))
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer if prod(t.dims) == 1}
    return _node(node, _Scope(shapes, known, model))


@dataclass(frozen=True)
class _Scope:
    """The shapes that are known where a node stands, and the values of single numbers."""

    shapes: Mapping[str, Shape]
    known: Mapping[str, Any]
    model: onnx.ModelProto

    def size(self, names: Sequence[str]) -> int:
        return sum(prod(self.shapes[n]) for n in names if n in self.shapes)

    def inside(self, body: onnx.GraphProto, inputs: Mapping[str, Shape]) -> _Scope:
        """The scope of a subgraph whose inputs have these shapes."""
        from onnx import numpy_helper

        own = {t.name: numpy_helper.to_array(t) for t in body.initializer if prod(t.dims) == 1}
        shapes = {**self.shapes, **_inferred(body, {**self.shapes, **inputs}, self.model), **inputs}
        return _Scope(shapes, {**self.known, **own}, self.model)


def _node(node: onnx.NodeProto, scope: _Scope) -> Work:
    graphs = {a.name: a.g for a in node.attribute if a.HasField("g")}
    if node.op_type == "If":
        return larger([_graph(g, scope.inside(g, {})) for g in graphs.values()])
    if node.op_type == "Loop":
        count = scope.known.get(node.input[0])
        carried = _carried(graphs["body"].input[2:], node.input[2:], scope, 0)
        return _graph(graphs["body"], scope.inside(graphs["body"], carried)).times(
            None if count is None else int(count)
        )
    if node.op_type == "Scan":
        return _scan(node, graphs["body"], scope)
    if graphs:
        return _sum(_graph(g, scope.inside(g, {})) for g in graphs.values()).times(None)
    return Work(_flops(node, scope))


def _scan(node: onnx.NodeProto, body: onnx.GraphProto, scope: _Scope) -> Work:
    """Scans run along the first axis of their last ``num_scan_inputs`` inputs."""
    number = next(int(a.i) for a in node.attribute if a.name == "num_scan_inputs")
    states = len(node.input) - number
    length = next((scope.shapes[n][0] for n in node.input[states:] if scope.shapes.get(n)), None)
    carried = _carried(body.input[:states], node.input[:states], scope, 0)
    slices = _carried(body.input[states:], node.input[states:], scope, 1)
    return _graph(body, scope.inside(body, carried | slices)).times(length)


def _carried(inside: Sequence[Any], outside: Sequence[str], scope: _Scope, skipped: int) -> dict[str, Shape]:
    """The shapes of a body's inputs, from what they are outside, without the first ``skipped`` dimensions."""
    return {
        value.name: scope.shapes[name][skipped:]
        for value, name in zip(inside, outside, strict=False)
        if name in scope.shapes
    }


def _graph(graph: onnx.GraphProto, scope: _Scope) -> Work:
    return _sum(_node(node, scope) for node in graph.node)


def _sum(works: Any) -> Work:
    return sum(works, NONE)


def _flops(node: onnx.NodeProto, scope: _Scope) -> int:
    """FLOPs of a node without graphs; unknown shapes count nothing."""
    shapes, made = scope.shapes, [n for n in node.output if n]
    read = [shapes.get(n) for n in node.input]
    if node.op_type in MOVES:
        return 0
    if node.op_type in RECURRENT and len(read) > 2 and read[0] and read[1] and read[2]:
        return 2 * prod(read[0][:2]) * (prod(read[1]) + prod(read[2]))
    if node.op_type in PRODUCTS and read[0]:
        turned = any(a.name == "transA" and a.i for a in node.attribute)
        return 2 * scope.size(made) * read[0][-2 if turned else -1]
    if node.op_type in CONVOLUTIONS and (weight := read[3 if node.op_type == "QLinearConv" else 1]):
        return 2 * scope.size(made) * prod(weight[1:])
    if node.op_type == "ConvTranspose" and read[0] and read[1]:
        return 2 * prod(read[0]) * prod(read[1][1:])
    return scope.size(made)


def _given(graph: onnx.GraphProto) -> dict[str, Shape]:
    values = (*graph.input, *graph.value_info, *graph.output)
    shapes = {v.name: shape for v in values if (shape := _dims(v)) is not None}
    return shapes | {t.name: tuple(t.dims) for t in graph.initializer}


def _dims(value: onnx.ValueInfoProto) -> Shape | None:
    kind = value.type.tensor_type
    if not kind.HasField("shape") or any(not d.HasField("dim_value") for d in kind.shape.dim):
        return None
    return tuple(d.dim_value for d in kind.shape.dim)


def _inferred(body: onnx.GraphProto, known: Mapping[str, Shape], model: onnx.ModelProto) -> dict[str, Shape]:
    """The shapes inside a subgraph, by ONNX's inference on it as a model of its own; what it cannot tell is left out."""
    import onnx
    from onnx import TensorProto, helper, shape_inference

    made = onnx.GraphProto()
    made.CopyFrom(body)
    inside = (
        {v.name for v in made.input}
        | {t.name for t in made.initializer}
        | {n for x in made.node for n in x.output}
    )
    read = {n for x in made.node for n in x.input if n and n not in inside}
    for value in made.input:
        if value.name in known:
            kind = value.type.tensor_type.elem_type or TensorProto.FLOAT
            value.CopyFrom(helper.make_tensor_value_info(value.name, kind, known[value.name]))
    made.input.extend(
        helper.make_tensor_value_info(n, TensorProto.FLOAT, known[n]) for n in sorted(read) if n in known
    )
    alone = helper.make_model(made, opset_imports=list(model.opset_import), functions=list(model.functions))
    try:
        return _given(shape_inference.infer_shapes(alone).graph)
    except Exception:  # ONNX finds the body wrong, e.g. for the type that an outer value has
        return _given(body)


def of_control_flow(node: Any, of_graph: Any) -> Work | None:
    """The work of a call of PyTorch's control flow, None for another node; ``of_graph``: the work of a graph module."""
    name = str(node.target)
    graphs = [_module(n) for n in node.args if getattr(n, "op", "") == "get_attr"]
    if name == "cond":
        return larger([of_graph(g) for g in graphs])
    if name == "while_loop":
        return _sum(of_graph(g) for g in graphs).times(None)
    if name in ("map_impl", "scan", "associative_scan"):
        return _sum(of_graph(g) for g in graphs).times(_length(node, name))
    return None


def _module(node: Any) -> Any:
    return getattr(node.graph.owning_module, str(node.target))


def _length(node: Any, name: str) -> int | None:
    """How often a map or scan runs: the first dimension of what it runs along."""
    along = node.args[1 if name == "map_impl" else 2 if name == "scan" else 1]
    first = along[0] if isinstance(along, (list, tuple)) and along else None
    shape = getattr(getattr(first, "meta", {}).get("val"), "shape", ())
    return int(shape[0]) if shape and isinstance(shape[0], int) else None
