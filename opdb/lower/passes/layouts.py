"""Rules for an op whose tensors are stored with their dimensions in another order.

A layout of a tensor is a permutation: the stored tensor has the dimension ``layout[i]`` of the tensor at place ``i``, like
Transpose's ``perm``.  For an op and a layout of its main input, ``in_layout`` gives the layouts of its other tensors and
the parameters with which it computes the same; it does not check what a target accepts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.edit import parameter, with_parameter

Layout = tuple[int, ...]
REMEMBERED = 1 << 14  # layouts of each function
Tensors = Sequence[GraphTensor | None]
Rule = Callable[[GraphOp, Tensors, Sequence[GraphTensor], Layout], "OpLayouts | None"]


@dataclass(frozen=True)
class OpLayouts:
    """An op with the layouts of its tensors.  A static input of lower rank than its layout first gets leading dimensions of size 1.

    ``rows``: for a Reshape that joins dimensions in another order than before, the new order of the joined ones; readers of
    the result must read its last dimension in the same order (``joined``).
    """

    op: GraphOp  # with its new parameters, but its old tensors
    inputs: tuple[Layout | None, ...]
    outputs: tuple[Layout, ...]
    rows: Layout | None = None


def identity(rank: int) -> Layout:
    return tuple(range(rank))


@lru_cache(REMEMBERED)
def inverse(layout: Layout) -> Layout:
    return tuple(sorted(range(len(layout)), key=layout.__getitem__))


@lru_cache(REMEMBERED)
def compose(outer: Layout, inner: Layout) -> Layout:
    """Composes layouts: ``inner`` of a tensor that is itself ``outer`` of another one, as a layout of the latter."""
    return tuple(outer[i] for i in inner)


def stored_shape(shape: Sequence[int], layout: Layout) -> tuple[int, ...]:
    return tuple(shape[i] for i in layout)


def order(shape: Sequence[int], layout: Layout) -> Layout:
    """The dimensions of more than one element in stored order: tensors with the same order have the same bytes."""
    return tuple(i for i in layout if shape[i] != 1)


def unchanged(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor]) -> OpLayouts:
    """The op unchanged."""
    ins = tuple(None if t is None else identity(len(t.shape)) for t in inputs)
    return OpLayouts(op, ins, tuple(identity(len(t.shape)) for t in outputs))


def in_layout(
    op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout
) -> OpLayouts | None:
    """``op`` with its main input, of the rank of ``layout``, in ``layout``; None if that is impossible."""
    rule = RULES.get(op.op)
    return None if rule is None else rule(op, inputs, outputs, layout)


def of_output(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], wanted: Layout) -> Layout | None:
    """The layout of the main input that puts an output into the layout ``wanted``; None if there is none."""
    if op.op in VIEWS:
        first = inputs[0]
        assert first is not None
        return _through(outputs[0].shape, first.shape, wanted)
    first = inputs[0]
    if op.op in (*REDUCTIONS, "StridedSlice") and first is not None:
        gone = _gone(op, len(first.shape))
        kept = [i for i in range(len(first.shape)) if i not in gone]
        return (*(kept[i] for i in wanted), *sorted(gone)) if len(kept) == len(wanted) else None
    return wanted


def _gone(op: GraphOp, rank: int) -> set[int]:
    """The dimensions of the input that the output of a reduction or slice lacks."""
    if op.op == "StridedSlice":
        bits = int(parameter(op, "shrink_axes", 0))
        return {i for i in range(rank) if bits >> i & 1}
    return set() if parameter(op, "keep_dims", False) else set(_axes(op, rank))


def _without(gone: set[int], layout: Layout) -> Layout:
    """The layout after removing some dimensions."""
    kept = [i for i in range(len(layout)) if i not in gone]
    return tuple(kept.index(i) for i in layout if i not in gone)


# -- the kinds of ops


def _elementwise(
    op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout
) -> OpLayouts | None:
    if len(outputs) != 1 or len(outputs[0].shape) != len(layout):
        return None
    ins: list[Layout | None] = []
    for t in inputs:
        found = None if t is None else _broadcast(t, layout)
        if t is not None and found is None:
            return None
        ins.append(found)
    return OpLayouts(op, tuple(ins), (layout,))


def _broadcast(t: GraphTensor, layout: Layout) -> Layout | None:
    """The layout of an input that is broadcast to a tensor in ``layout``."""
    missing = len(layout) - len(t.shape)
    if missing <= 0:
        return layout if missing == 0 else None
    if math.prod(t.shape) == 1:
        return identity(len(t.shape))
    if t.type == "STATIC":
        return layout
    rest = layout[missing:]
    return tuple(i - missing for i in rest) if min(rest, default=0) >= missing else None


def _along(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles ops with one ``axis``; all tensors have the rank of the first."""
    rank = len(layout)
    if any(t is None or len(t.shape) != rank for t in (*inputs, *outputs)):
        return None
    axis = layout.index(int(parameter(op, "axis", rank - 1)))
    params = with_parameter(op, ParamConfig("axis", "u32", axis))
    return OpLayouts(replace(op, params=params), (layout,) * len(inputs), (layout,) * len(outputs))


def _norm(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles ops with ``axes``; further inputs lie along these, in their order."""
    rank = len(layout)
    if len(outputs) != 1 or len(outputs[0].shape) != rank:
        return None
    moved = _moved_axes(op, rank, layout)
    rest = tuple(None if t is None else identity(len(t.shape)) for t in inputs[1:])
    return OpLayouts(moved, (layout, *rest), (layout,))


def _reduction(
    op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout
) -> OpLayouts | None:
    rank = len(layout)
    if len(inputs) != 1 or len(outputs) != 1 or inputs[0] is None or len(inputs[0].shape) != rank:
        return None
    out = _without(_gone(op, rank), layout)
    # backends give a result without dimensions one of size 1
    return OpLayouts(_moved_axes(op, rank, layout), (layout,), (out or identity(len(outputs[0].shape)),))


def _axes(op: GraphOp, rank: int) -> tuple[int, ...]:
    """The axes over which a reduction or normalization runs."""
    axes = parameter(op, "axes")
    if axes is None:
        return (int(parameter(op, "axis", 0)),)
    return tuple(int(a) for a in axes)


def _moved_axes(op: GraphOp, rank: int, layout: Layout) -> GraphOp:
    axes = tuple(layout.index(a) for a in _axes(op, rank))
    if parameter(op, "axes") is None:
        return replace(op, params=with_parameter(op, ParamConfig("axis", "u32", axes[0])))
    if op.op in REDUCTIONS:
        axes = tuple(sorted(axes))
    return replace(op, params=with_parameter(op, ParamConfig("axes", "u32", axes, (len(axes),))))


def _by_rows(name: str) -> Rule:
    """Handles ops with a parameter that has a row for each dimension."""

    def rule(
        op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout
    ) -> OpLayouts | None:
        moved = _moved_rows(op, name, layout)
        if moved is None or len(inputs) != 1 or len(outputs[0].shape) != len(layout):
            return None
        return OpLayouts(moved, (layout,), (layout,))

    return rule


def _moved_rows(op: GraphOp, name: str, layout: Layout) -> GraphOp | None:
    rank = len(layout)
    param = next((p for p in op.params if p.name == name), None)
    if param is None or param.shape is None or param.shape[0] != rank:
        return None
    width = len(param.value) // rank
    rows = [param.value[i * width : (i + 1) * width] for i in range(rank)]
    return replace(
        op, params=with_parameter(op, replace(param, value=tuple(v for i in layout for v in rows[i])))
    )


def _slice(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles StridedSlice: a row of ranges and a bit of three masks for each dimension."""
    moved = _moved_rows(op, "ranges", layout)
    if moved is None or parameter(op, "new_axes_mask", 0):
        return None
    for name in ("begin_mask", "end_mask", "shrink_axes"):
        if bits := int(parameter(op, name, 0)):
            mask = sum(((bits >> old) & 1) << new for new, old in enumerate(layout))
            moved = replace(moved, params=with_parameter(moved, ParamConfig(name, "u32", mask)))
    out = _without(_gone(op, len(layout)), layout)
    return OpLayouts(moved, (layout,), (out or identity(len(outputs[0].shape)),))


def _gather(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles Gather: indices of one dimension replace the axis."""
    indices = inputs[1]
    if indices is None or len(indices.shape) != 1 or len(outputs[0].shape) != len(layout):
        return None
    axis = int(parameter(op, "axis", 0)) % len(layout)
    params = with_parameter(op, ParamConfig("axis", "i32", layout.index(axis)))
    return OpLayouts(replace(op, params=params), (layout, (0,)), (layout,))


def _image(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles pools and resizes of NHWC: height and width may be swapped."""
    if layout != (0, 2, 1, 3) or len(inputs) != 1 or len(outputs) != 1 or len(outputs[0].shape) != 4:
        return None
    params = []
    for p in op.params:
        if p.name in ("filter_size", "stride", "pad_amount"):
            half = len(p.value) // 2
            p = replace(p, value=(*p.value[half:], *p.value[:half]))
        params.append(p)
    return OpLayouts(replace(op, params=tuple(params)), (layout,), (layout,))


def _view(op: GraphOp, inputs: Tensors, outputs: Sequence[GraphTensor], layout: Layout) -> OpLayouts | None:
    """Handles Reshape and similar ops: dimensions that are joined or split must stay adjacent."""
    first = inputs[0]
    if first is None or len(first.shape) != len(layout) or any(t is not None for t in inputs[1:]):
        return None
    made = GraphOp(op.name, "Reshape", op.inputs[:1], (), op.outputs, op.package, op.origin)
    if (out := _through(first.shape, outputs[0].shape, layout)) is not None:
        return OpLayouts(made, (layout,), (out,))
    return _joined(made, first.shape, outputs[0].shape, layout)


@lru_cache(REMEMBERED)
def _through(before: tuple[int, ...], after: tuple[int, ...], layout: Layout) -> Layout | None:
    """The layout after a Reshape of a tensor in ``layout``; dimensions of size 1 stay where they are."""
    parts = groups(before, after)
    if parts is None:
        return None
    made: list[int] = []
    left = list(order(before, layout))
    while left:
        group = next((g for g in parts if g[0] and g[0][0] == left[0]), None)
        if group is None or tuple(left[: len(group[0])]) != group[0]:
            return None
        made += group[1]
        left = left[len(group[0]) :]
    return _with_ones(after, made)


def _with_ones(shape: Sequence[int], made: Sequence[int]) -> Layout:
    rest = iter(made)
    return tuple(i if shape[i] == 1 else next(rest) for i in range(len(shape)))


def _joined(op: GraphOp, before: Sequence[int], after: Sequence[int], layout: Layout) -> OpLayouts | None:
    """All but the first dimensions joined into the last one, in another order than before."""
    parts = groups(before, after)
    if not parts or len(parts[-1][0]) < 2 or parts[-1][1] != (len(after) - 1,):
        return None
    last = parts[-1][0]
    stored = order(before, layout)
    ahead, mixed = stored[: -len(last)], stored[-len(last) :]
    plain = order(before, identity(len(before)))[: -len(last)]
    if sorted(mixed) != list(last) or ahead != plain:
        return None
    rows = tuple(last.index(i) for i in mixed)
    return OpLayouts(op, (layout,), (identity(len(after)),), rows)


def joined_sizes(before: Sequence[int], after: Sequence[int]) -> tuple[int, ...]:
    """The sizes of the dimensions that a Reshape joins into its last one."""
    parts = groups(before, after)
    assert parts
    return tuple(before[i] for i in parts[-1][0])


def groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[Layout, Layout]] | None:
    """The smallest runs of dimensions, without those of size 1, that a Reshape turns into each other."""
    if 0 in before or math.prod(before) != math.prod(after):
        return None
    ins = [i for i, d in enumerate(before) if d != 1]
    outs = [i for i, d in enumerate(after) if d != 1]
    made: list[tuple[Layout, Layout]] = []
    while ins:
        a, b = [ins.pop(0)], [outs.pop(0)]
        m, n = before[a[0]], after[b[0]]
        while m != n:
            if m < n:
                a.append(ins.pop(0))
                m *= before[a[-1]]
            else:
                b.append(outs.pop(0))
                n *= after[b[-1]]
        made.append((tuple(a), tuple(b)))
    return made


VIEWS = frozenset({"Reshape", "ExpandDims", "Squeeze"})
REDUCTIONS = frozenset({
    "Argmax", "Argmin", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
})  # fmt: skip
_OF_ELEMENTS = (
    "Abs", "Add", "And", "Asin", "Atan", "Binary", "Ceil", "Cos", "Divide", "Equal", "Exp", "Floor", "FloorDiv", "Fmod",
    "Greater", "GreaterEqual", "Less", "LessEqual", "Log", "Maximum", "Minimum", "Mod", "Multiply", "Mux", "Neg", "Neuron",
    "Not", "NotEqual", "Or", "Power", "Round", "Rsqrt", "Select", "Sign", "Sin", "Softplus", "SquareRoot",
    "SquaredDifference", "Subtract", "Unary", "Xor",
)  # fmt: skip
ELEMENTWISE = frozenset({
    *(f"ElementWise{name}" for name in _OF_ELEMENTS), "Cast", "Convert", "Dequantize", "Elu", "Gelu", "HardSwish", "IsInf",
    "IsNan", "Logit", "Prelu", "Quantize", "Relu", "Relu1", "Relu6", "ReluMinMax", "Sigmoid", "Tanh",
})  # fmt: skip
RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(VIEWS, _view),
    **dict.fromkeys(REDUCTIONS, _reduction),
    **dict.fromkeys(("Concat", "CumulativeSum", "LogSoftmax", "Softmax", "Split"), _along),
    **dict.fromkeys(("L2Norm", "LayerNorm", "RmsNorm"), _norm),
    **dict.fromkeys(("PoolAvg2d", "PoolMax2d", "Resize", "ResizeBilinear", "ResizeNearestNeighbor"), _image),
    "Gather": _gather,
    "Pad": _by_rows("pad_amount"),
    "StridedSlice": _slice,
    "Tile": _by_rows("multiples"),
}
