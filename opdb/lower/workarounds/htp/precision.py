"""Ops of FLOAT_32 in a form that HTP finalizes for v68.

For v68 some ops keep the single precision of the graph's inputs (``KEEP``), and some exist only in half precision
(``HALVE``).  HTP has no conversion from the first to the second, not even through other ops between them, and none if
an op joins both.  Products with 1 before an op of ``KEEP`` make it compute in half precision, too; a Prelu with a slope of 1
after it is there for tensors that HTP lays out in tiles, and for some square roots and quotients.

All of it was measured for each op that opdb accepts in FLOAT_32 for SM8350, before and after others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, full, intermediate

FLOAT = "f32"


def _kinds(names: str, **operations: Iterable[int]) -> frozenset[tuple[Any, ...]]:
    """Ops by name, and ops with a parameter ``operation`` by its number, too."""
    numbered = {(op, number) for op, numbers in operations.items() for number in numbers}
    return frozenset({(name,) for name in names.split()} | numbered)


KEEP = _kinds(
    "ElementWiseDivide ElementWiseExp ElementWiseMaximum ElementWiseMinimum ElementWisePower ElementWiseSquareRoot "
    "ElementWiseSubtract GridSample LogSoftmax ReduceSum Resize ResizeNearestNeighbor",
    ElementWiseBinary=(2, 10, 11, 16, 18),
    ElementWiseUnary=(5, 15),
)
HALVE = _kinds(
    "Argmax Argmin Batchnorm Conv2d DepthWiseConv2d ElementWiseFloor ElementWiseMultiply ElementWiseSign "
    "ExtractGlimpse ExtractPatches FullyConnected GatherNd Lrn MatMul MultiClassNms NonMaxSuppression PoolMax2d Prelu "
    "TransposeConv2d",
    ElementWiseBinary=(4, 13),
    ElementWiseNeuron=(7,),
    ElementWiseUnary=(6, 13),
)
#: They take single precision and give half precision.
CONVERT = _kinds(
    "ElementWiseSquaredDifference PoolAvg2d PoolAvg3d ReduceMax ReduceMean ReduceMin ResizeBilinear TopK",
    ElementWiseBinary=(17,),
)
#: Their results have the precision of the graph's inputs, whatever they read; convolutions and slices only for some steps, sizes, layouts.
FORGET = _kinds(
    "Conv2d DepthWiseConv2d GatherNd LayerNorm SpaceToBatch SpaceToDepth StridedSlice TransposeConv2d"
)
#: They refuse single precision beside half precision, and give half precision if all inputs have it.
JOIN = _kinds("Concat Pack")


@dataclass(frozen=True)
class _State:
    """The state of a tensor.  ``half``: it is in half precision.  ``kept``: the ops of KEEP, by their places, that it comes from."""

    half: bool = False
    kept: frozenset[int] = frozenset()


AS_GIVEN = _State()
HALF = _State(half=True)


def in_half_precision(ops: Mapping[str, Sequence[LoweredOp]]) -> dict[str, list[LoweredOp]]:
    """The new ops of each node that changes.  ``ops``: the ops of a graph's nodes, in the order of execution."""
    graph = _Graph([(node, op) for node, own in ops.items() for op in own])
    while blamed := graph.blamed():
        graph.changed |= blamed
    nodes = {graph.ops[place][0] for place in graph.changed}
    made: dict[str, list[LoweredOp]] = {}
    for place, (node, op) in enumerate(graph.ops):
        if node in nodes:
            made.setdefault(node, []).extend(graph.in_place(place) if place in graph.changed else [op])
    return made


@dataclass
class _Graph:
    """``ops``: each with its node, in the order of execution.  ``changed``: the places of the ops that get new neighbors."""

    ops: Sequence[tuple[str, LoweredOp]]
    changed: frozenset[int] = frozenset()
    states: dict[Any, _State] = field(default_factory=dict)

    def blamed(self) -> frozenset[int]:
        """The ops of KEEP whose precision a later op does not take, without those that are already changed."""
        self.states = {}
        blamed: frozenset[int] = frozenset()
        for place, (node, op) in enumerate(self.ops):
            read = [self.state(t, node) for t in _floats(op)]
            made, wrong = (HALF, frozenset[int]()) if place in self.changed else _made(op, read, place)
            blamed |= wrong
            self.states |= {_source(t, node): made for t in op.outputs}
        return blamed

    def state(self, t: TensorRef, node: str) -> _State:
        return self.states.get(_source(t, node), AS_GIVEN)

    def in_place(self, place: int) -> Iterator[LoweredOp]:
        """Yields an op after products with 1, and before a Prelu that leaves its results unchanged."""
        node, op = self.ops[place]
        inputs, outputs = list(op.inputs), list(op.outputs)
        for i, x in enumerate(op.inputs):
            if x is not None and _is_float(x) and not self.state(x, node).half:
                inputs[i] = half = intermediate(f"half_{place}_{i}", x.shape, x)
                factor = full([1], 1.0, x)
                yield lowered_op("ElementWiseMultiply", inputs={"a": factor, "b": x}, outputs={"y": half})
        y = op.outputs[0]
        outputs[0] = before = intermediate(f"before_slope_{place}", y.shape, y)
        yield replace(op, inputs=tuple(inputs), outputs=tuple(outputs))
        slope = full(y.shape[-1:], 1.0, y)
        yield lowered_op("Prelu", inputs={"x": before, "alpha": slope}, outputs={"y": y})


def _made(op: LoweredOp, read: Sequence[_State], place: int) -> tuple[_State, frozenset[int]]:
    """The state of the op's result, and the ops to blame if no graph with it is finalized."""
    half = any(state.half for state in read)
    kept = frozenset(at for state in read for at in state.kept)
    kind = _kind(op)
    wrong: frozenset[int] = frozenset()
    if kind in HALVE | JOIN:
        wrong = kept
    elif half:
        wrong = frozenset(at for state in read if not state.half for at in state.kept)
    if kind in FORGET:
        return AS_GIVEN, wrong
    if kind in JOIN:
        return (HALF if all(state.half for state in read) else AS_GIVEN), wrong
    if kind in HALVE or (kind in CONVERT and not _same_size(op)):
        return HALF, wrong
    if kind in KEEP and read:
        kept |= {place}
    return _State(bool(read) and all(state.half for state in read), kept), wrong


def _floats(op: LoweredOp) -> Iterator[TensorRef]:
    return (t for t in op.inputs if t is not None and _is_float(t))


def _is_float(t: TensorRef) -> bool:
    return not t.static and t.dtype == FLOAT


def _source(t: TensorRef, node: str) -> Any:
    return (node, t.local) if t.local is not None else t.key


def _kind(op: LoweredOp) -> tuple[Any, ...]:
    return (op.op, *(p.value for p in op.params if p.name == "operation"))


def _same_size(op: LoweredOp) -> bool:
    """True for an op that HTP leaves out, e.g. a mean over a dimension of one element."""
    x = next(_floats(op), None)
    moves = _kind(op)[0].startswith(("Reduce", "Pool", "Resize"))
    return x is not None and moves and x.shape == op.outputs[0].shape
