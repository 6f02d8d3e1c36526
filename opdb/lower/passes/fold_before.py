"""fold-normalization: folds constant products and sums before a convolution or a product into its filter and bias.

A sum goes into the bias only if the convolution's input is not padded with zeros: the padding comes after the sum.
"""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphOp
from opdb.lower.passes.arithmetic import TURNS, Parts, Scaling, along_one, axis_behind, axis_of, scaling
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.weights import Weighted, weighted


def run(edit: Edit) -> int:
    """Returns the number of ops folded; starts with the nearest to the convolution."""
    found = [s for op in edit.ops if (s := scaling(edit, op)) is not None]
    return sum(edit.has(s.op) and _folded(edit, s) for s in reversed(found))


def _folded(edit: Edit, s: Scaling) -> bool:
    parts = along_one(s, len(edit.tensors[s.y].shape))
    if parts is None:
        return False
    axis = axis_of(parts)
    made, views = s.y, list[GraphOp]()
    while (reader := edit.only_reader(made)) is not None:
        found = weighted(edit, reader)
        if found is not None and reader.inputs[0] == made:
            return axis in (None, len(edit.tensors[made].shape) - 1) and _into(edit, found, views, s, parts)
        if reader.op not in TURNS:
            return False
        if axis is not None and (axis := axis_behind(edit, reader, axis)) is None:
            return False
        views.append(reader)
        made = reader.outputs[0]
    return False


def _into(edit: Edit, found: Weighted, views: list[GraphOp], s: Scaling, parts: Parts) -> bool:
    if found.pads() and s.term is not None:
        return False
    if found.op.op == "FullyConnected" and found.filter.shape[-1] != found.read:
        return False
    changed = found.behind(edit, *(None if p is None else p.over(found.read) for p in parts))
    if changed is None:
        return False
    new = [*views, changed.op]
    new[0] = replace(new[0], inputs=(s.x, *new[0].inputs[1:]))
    return edit.rewrite([s.op, *views, found.op], new, changed.tensors)
