"""fuse-norms: fuses means, sums and quotients that compute Softmax, LayerNorm, RmsNorm or L2Norm into one op."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.arithmetic import FLOATS, Array, along, operation, rounded, scaling, single, static
from opdb.lower.passes.edit import Edit, parameter

#: The lowest value at which an exponential's input may be clamped: its exponential is 0 in float32.
CUT = -86.0


def run(edit: Edit) -> int:
    """Returns the number of fused norms, plus the products and sums folded into one."""
    fused = sum(_fused(edit, op) for op in reversed(edit.ops) if edit.has(op))
    return fused + sum(_scaled(edit, op) for op in edit.live())


def _fused(edit: Edit, last: GraphOp) -> bool:
    if edit.tensors[last.outputs[0]].dtype not in FLOATS or operation(last) not in ("DIVIDE", "MULTIPLY"):
        return False
    found = _softmax(edit, last) or _normed(edit, last)
    return found is not None and any(
        edit.rewrite([*found.ops, last], [op], tensors, faultless=True)
        for op, tensors in found.forms(edit, last)
    )


@dataclass(frozen=True)
class Found:
    """``ops``: the ops that only the last op needs, in the order of execution."""

    kind: str
    x: str
    ops: tuple[GraphOp, ...]
    axis: int
    epsilon: float = 0.0

    def forms(self, edit: Edit, last: GraphOp) -> Iterator[tuple[GraphOp, list[GraphTensor]]]:
        """Yields forms of the op with its constants; the target may accept one of them."""
        axes = ParamConfig("axes", "u32", (self.axis,), (1,))
        epsilon = ParamConfig("epsilon", "f32", self.epsilon)
        y = edit.tensors[last.outputs[0]]
        channels = y.shape[self.axis]
        one, zero = (
            static(edit, f"{last.name}_{name}", np.full(channels, value, _kind(y.dtype)), y.dtype)
            for name, value in (("gamma", 1.0), ("beta", 0.0))
        )
        if self.kind == "Softmax":
            yield self._op(last, (), (ParamConfig("axis", "u32", self.axis),)), []
        elif self.kind == "L2Norm":
            yield self._op(last, (), (ParamConfig("axis", "u32", self.axis), epsilon)), []
        else:
            # RmsNorm gets a beta, too, as specs/torch/rms_norm.yaml has it.
            yield self._op(last, (one.name, zero.name), (epsilon, axes)), [one, zero]

    def _op(self, last: GraphOp, more: tuple[str, ...], params: tuple[ParamConfig, ...]) -> GraphOp:
        return GraphOp(last.name, self.kind, (self.x, *more), params, last.outputs, last.package, last.origin)


def _softmax(edit: Edit, last: GraphOp) -> Found | None:
    """Matches e / sum(e) with e = exp(x - max(x)), whose input may be clamped where e is 0."""
    power, total = last.inputs
    summed, exp = edit.maker(total), edit.maker(power)
    if operation(last) != "DIVIDE" or summed is None or exp is None or single(exp) != "ElementWiseExp":
        return None
    axis = _reduced(edit, summed, "ReduceSum")
    if axis is None or summed.inputs[0] != power:
        return None
    ops, x = [exp, summed], exp.inputs[0] or ""
    cut = edit.maker(x)
    if cut is not None and cut.op == "ReluMinMax":
        if float(parameter(cut, "min_value")) > CUT or float(parameter(cut, "max_value")) < 0:
            return None
        ops, x = [cut, *ops], cut.inputs[0] or ""
    below = edit.maker(x)
    if below is None or operation(below) != "SUBTRACT":
        return None
    x, largest = below.inputs[0] or "", edit.maker(below.inputs[1])
    if largest is None or _reduced(edit, largest, "ReduceMax") != axis or largest.inputs[0] != x:
        return None
    return _alone(edit, Found("Softmax", x, (largest, below, *ops), axis), last)


def _normed(edit: Edit, last: GraphOp) -> Found | None:
    """Matches x over the root of the mean of its squares (plus a number), or over its length with a lower bound."""
    for x, root in (last.inputs, last.inputs[::-1]):
        maker = edit.maker(root)
        found = None if maker is None or x is None else _root(edit, maker, x, operation(last) == "DIVIDE")
        if found is not None:
            return _alone(edit, _centered(edit, found), last) or _alone(edit, found, last)
        if operation(last) == "DIVIDE":
            break
    return None


def _root(edit: Edit, op: GraphOp, x: str, divided: bool) -> Found | None:
    """The norm of x that has ``op`` as its divisor (or, for a reciprocal root, as its factor)."""
    least, ops = None, [op]
    if divided and operation(op) == "MAXIMUM":
        least, root = edit.constant(op.inputs[1]), edit.maker(op.inputs[0])
        if least is None or least.size != 1 or root is None:
            return None
        op, ops = root, [root, op]
    if single(op) != ("ElementWiseSquareRoot" if divided else "ElementWiseRsqrt"):
        return None
    read, epsilon = edit.maker(op.inputs[0]), 0.0
    if read is not None and operation(read) == "ADD" and least is None:
        s = scaling(edit, read)
        if s is None or s.term is None or s.term.size != 1:
            return None
        epsilon, ops = float(s.term.item()), [read, *ops]
        read = edit.maker(s.x)
    if read is None or (squares := edit.maker(read.inputs[0])) is None or not _squares(edit, squares, x):
        return None
    axis = _reduced(edit, read, "ReduceSum" if least is not None else "ReduceMean")
    if axis is None or (least is None and epsilon <= 0):
        return None
    if least is not None:
        return Found("L2Norm", x, (squares, read, *ops), axis, float(least.item()) ** 2)
    return Found("RmsNorm", x, (squares, read, *ops), axis, epsilon)


def _squares(edit: Edit, op: GraphOp, x: str) -> bool:
    what = operation(op)
    if what == "POWER":
        power = edit.constant(op.inputs[1])
        return op.inputs[0] == x and power is not None and power.size == 1 and power.item() == 2
    return what == "MULTIPLY" and op.inputs == (x, x)


def _centered(edit: Edit, found: Found) -> Found | None:
    """A LayerNorm, if the normalized tensor is x minus its mean."""
    less = edit.maker(found.x)
    if found.kind != "RmsNorm" or less is None or operation(less) != "SUBTRACT":
        return None
    x, mean = less.inputs[0] or "", edit.maker(less.inputs[1])
    if mean is None or _reduced(edit, mean, "ReduceMean") != found.axis or mean.inputs[0] != x:
        return None
    return Found("LayerNorm", x, (mean, less, *found.ops), found.axis, found.epsilon)


def _scaled(edit: Edit, op: GraphOp) -> bool:
    """Folds a product or a sum after a LayerNorm or RmsNorm over the last axis into its gamma and beta."""
    s = scaling(edit, op)
    norm = edit.maker(s.x) if s is not None else None
    if (
        s is None
        or norm is None
        or norm.op not in ("LayerNorm", "RmsNorm")
        or edit.only_reader(s.x) is not op
    ):
        return False
    shape, dtype = edit.tensors[s.y].shape, edit.tensors[s.y].dtype
    given = [edit.constant(t) for t in norm.inputs[1:]]
    parts = [None if c is None else along(c, len(shape)) for c in (s.factor, s.term)]
    if any(
        c is not None and (p is None or p.axis not in (None, len(shape) - 1))
        for c, p in zip((s.factor, s.term), parts, strict=True)
    ):
        return False
    if not given or any(c is None or c.shape != shape[-1:] for c in given):
        return False
    made: list[Array] = [np.asarray(c, np.float64) for c in given if c is not None]
    if parts[0] is not None:
        made = [c * parts[0].over(shape[-1]) for c in made]
    if parts[1] is not None:
        made = [made[0], (made[1] if len(made) > 1 else 0.0) + parts[1].over(shape[-1])]
    values = [rounded(c, dtype) for c in made]
    tensors = [
        static(edit, f"{norm.name}_{what}", v, dtype)
        for what, v in zip(("gamma", "beta"), values, strict=False)
        if v is not None
    ]
    if len(tensors) != len(made):
        return False
    new = replace(norm, inputs=(norm.inputs[0], *(t.name for t in tensors)), outputs=(s.y,))
    return edit.rewrite([norm, op], [new], tensors, faultless=True)


def _reduced(edit: Edit, op: GraphOp, kind: str) -> int | None:
    """The last axis, if an op of this kind reduces only that and keeps it."""
    axes = [int(a) for a in np.atleast_1d(parameter(op, "axes", ()))]
    rank = len(edit.tensors[op.inputs[0] or ""].shape)
    return axes[0] if op.op == kind and parameter(op, "keep_dims") and axes == [rank - 1] else None


def _alone(edit: Edit, found: Found | None, last: GraphOp) -> Found | None:
    """``found``, if nothing outside reads the results of its ops."""
    if found is None:
        return None
    inside = {op.name for op in (*found.ops, last)}
    made = [op.outputs[0] for op in found.ops]
    fits = all(edit.inner(t) and all(r.name in inside for r in edit.readers(t)) for t in made)
    return found if fits and math.isfinite(found.epsilon) else None


def _kind(dtype: str) -> type[np.floating]:
    return np.float16 if dtype == "f16" else np.float32
