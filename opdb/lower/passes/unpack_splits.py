"""Rewrites UnPack of five dimensions (e.g. the query, key and value of attention) as a Split, and moves that before the Reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.edit import Edit, parameter
from opdb.lower.passes.layouts import VIEWS, groups

#: The number of dimensions for which chips have kernels of UnPack and Split.
RANK = 4


def unpack(edit: Edit) -> int:
    """Rewrites an UnPack of more than four dimensions as a Split and a Reshape of each part; returns the number of changes."""
    changed = 0
    for op in edit.ops:
        if op.op == "UnPack" and len(edit.tensors[str(op.inputs[0])].shape) > RANK:
            changed += _parted(edit, op)
    return changed


def _parted(edit: Edit, op: GraphOp) -> int:
    x = edit.tensors[str(op.inputs[0])]
    axis = int(parameter(op, "axis", 0))
    count = len(op.outputs)
    part = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    if count < 2 or any(edit.tensors[y].quant != x.quant for y in op.outputs):
        return 0
    parts = [_inner(edit, x, f"{y}_part", part) for y in op.outputs]
    return _put(edit, [op], x.name, axis, range(1, count), parts)


def split_first(edit: Edit) -> int:
    """Rewrites a Split of more than four dimensions after a Reshape as a Split and a Reshape of each part."""
    changed = 0
    for op in edit.ops:
        if op.op == "Split" and len(edit.tensors[str(op.inputs[0])].shape) > RANK:
            changed += _ahead(edit, op)
    return changed


def _ahead(edit: Edit, op: GraphOp) -> int:
    view = edit.maker(op.inputs[0])
    if view is None or view.op not in VIEWS or edit.only_reader(str(op.inputs[0])) is not op:
        return 0
    x, seen = edit.tensors[str(view.inputs[0])], edit.tensors[str(op.inputs[0])]
    if x.quant != seen.quant or (x.quant is not None and x.quant.axis is not None):
        return 0
    axis = int(parameter(op, "axis", 0))
    found = next((g for g in groups(x.shape, seen.shape) or () if g[1] and g[1][0] == axis), None)
    if found is None or len(found[0]) != 1 or len(x.shape) > RANK:
        return 0
    inner = math.prod(seen.shape[i] for i in found[1][1:])
    cuts = [int(i) * inner for i in parameter(op, "split_index")]
    ends = [0, *cuts, x.shape[found[0][0]]]
    parts = [
        _inner(edit, x, f"{y}_flat", (*x.shape[: found[0][0]], b - a, *x.shape[found[0][0] + 1 :]))
        for y, (a, b) in zip(op.outputs, pairwise(ends), strict=True)
    ]
    return _put(edit, [view, op], x.name, found[0][0], cuts, parts)


def _inner(edit: Edit, like: GraphTensor, base: str, shape: tuple[int, ...]) -> GraphTensor:
    return replace(like, name=edit.fresh(base), shape=shape, type="NATIVE", data=None)


def _put(
    edit: Edit, old: list[GraphOp], x: str, axis: int, cuts: Sequence[int], parts: list[GraphTensor]
) -> int:
    """Replaces ``old`` by a Split of ``x`` into ``parts`` and their Reshapes; returns 0 if the target refuses them."""
    op = old[-1]
    index = ParamConfig("split_index", "u32", tuple(cuts), (len(cuts),))
    params = (ParamConfig("axis", "u32", axis), index)
    new = [replace(op, op="Split", inputs=(x,), params=params, outputs=tuple(p.name for p in parts))]
    for i, (part, y) in enumerate(zip(parts, op.outputs, strict=True)):
        name = edit.fresh(f"{op.name}_{i}")
        new.append(GraphOp(name, "Reshape", (part.name,), (), (y,), op.package, op.origin))
    return int(edit.rewrite(old, new, parts))
