"""fold-batchnorm: folds constant products and sums after a convolution or a product into its filter and bias.

Per-channel values pass Transposes and Reshapes that keep the channels; a single number also passes a product of two tensors.
"""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphOp
from opdb.lower.passes.arithmetic import (
    FLOATS,
    TURNS,
    Parts,
    Scaling,
    along_one,
    axis_before,
    axis_of,
    scaling,
)
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.weights import Weighted, weighted


def run(edit: Edit) -> int:
    """Returns the number of ops folded."""
    return sum((s := scaling(edit, op)) is not None and _folded(edit, s) for op in edit.live())


def _folded(edit: Edit, s: Scaling) -> bool:
    parts = along_one(s, len(edit.tensors[s.y].shape))
    if parts is None:
        return False
    axis = axis_of(parts)
    read: str = s.x
    views: list[GraphOp] = []
    behind: GraphOp = s.op
    while edit.only_reader(read) is behind and (maker := edit.maker(read)) is not None:
        if (found := weighted(edit, maker)) is not None:
            return axis in (None, len(edit.tensors[read].shape) - 1) and _into(edit, found, views, s, parts)
        if not _passes(edit, maker, s, parts):
            return False
        if axis is not None and (axis := axis_before(edit, maker, axis)) is None:
            return False
        views.insert(0, maker)
        behind, read = maker, maker.inputs[0] or ""
    return False


def _passes(edit: Edit, op: GraphOp, s: Scaling, parts: Parts) -> bool:
    """True if the scaling of the result of ``op`` can move to its first input: for views, and for products by one number."""
    if op.op == "MatMul":
        bias = len(op.inputs) > 2 and op.inputs[2] is not None
        one = s.term is None and parts[0] is not None and parts[0].axis is None
        return one and not bias and edit.tensors[s.y].dtype in FLOATS
    return op.op in TURNS


def _into(
    edit: Edit,
    found: Weighted,
    views: list[GraphOp],
    s: Scaling,
    parts: Parts,
) -> bool:
    factor, term = (None if p is None else p.over(found.channels) for p in parts)
    made = found.scaled(edit, factor, term)
    if made is None:
        return False
    new = [made.op, *views]
    new[-1] = replace(new[-1], outputs=(s.y,))
    return edit.rewrite([found.op, *views, s.op], new, made.tensors)
