"""slice-before-reshapes: moves slices of a dimension that a Reshape made to the dimension that it was made from.

Attention's query, key and value are slices of [197, 3, 1, 768], which is [197, 2304] before.  HTP is slow with the first and fast
with the second: a ViT-B/16 of two layers takes 5,625 us with the first and 2,542 with the second (QNN 2.51 for SA8255, fp16).
"""

from __future__ import annotations

import math
from dataclasses import replace

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.edit import Edit, parameter
from opdb.lower.passes.layouts import VIEWS, groups

MASKS = ("begin_mask", "end_mask", "new_axes_mask")


def run(edit: Edit) -> int:
    """Returns the number of slices changed; skips Reshapes that have other readers."""
    return sum(_changed(edit, op) for op in edit.live() if op.op in VIEWS)


def _changed(edit: Edit, view: GraphOp) -> int:
    readers = edit.readers(view.outputs[0])
    if not readers or not edit.inner(view.outputs[0]) or any(op.op != "StridedSlice" for op in readers):
        return 0
    x, y = edit.tensors[view.inputs[0] or ""], edit.tensors[view.outputs[0]]
    if x.quant != y.quant or (x.quant is not None and x.quant.axis is not None):
        return 0
    cuts = [_cut(edit, op, x.shape, y.shape) for op in readers]
    if None in cuts:
        return 0
    changed = sum(_ahead(edit, op, x, *cut) for op, cut in zip(readers, cuts, strict=True) if cut is not None)
    if not edit.readers(y.name):
        edit.replace([view], [])
    return changed


def _ahead(edit: Edit, op: GraphOp, x: GraphTensor, axis: int, begin: int, end: int) -> bool:
    """Replaces a slice of a Reshape of ``x`` by a slice of ``x`` and a Reshape."""
    whole = [(0, size, 1) for size in x.shape]
    whole[axis] = (begin, end, 1)
    ranges = ParamConfig("ranges", "i32", tuple(n for r in whole for n in r), (len(whole), 3))
    shape = (*x.shape[:axis], end - begin, *x.shape[axis + 1 :])
    part = replace(x, name=edit.fresh(f"{op.outputs[0]}_flat"), shape=shape, type="NATIVE", data=None)
    cut = replace(op, inputs=(x.name,), params=(ranges,), outputs=(part.name,))
    view = GraphOp(
        edit.fresh(f"{op.name}_view"), "Reshape", (part.name,), (), op.outputs, op.package, op.origin
    )
    return edit.rewrite([op], [cut, view], [part])


def _cut(
    edit: Edit, op: GraphOp, before: tuple[int, ...], after: tuple[int, ...]
) -> tuple[int, int, int] | None:
    """The dimension before the Reshape, and the begin and end there, of a slice; None if it takes anything else."""
    ranges = [int(n) for n in parameter(op, "ranges", ())]
    if any(parameter(op, mask, 0) for mask in MASKS) or len(ranges) != 3 * len(after):
        return None
    cuts = [(i, *ranges[3 * i : 3 * i + 3]) for i, size in enumerate(after) if size != 1]
    cuts = [(i, a, b, step) for i, a, b, step in cuts if (a, b, step) != (0, after[i], 1)]
    if len(cuts) != 1:
        return None
    ((axis, begin, end, step),) = cuts
    run = next((g for g in groups(before, after) or () if g[1][0] == axis and len(g[1]) > 1), None)
    if run is None or len(run[0]) != 1 or step != 1 or not 0 <= begin < end <= after[axis]:
        return None
    inner = math.prod(after[i] for i in run[1][1:])
    return run[0][0], begin * inner, end * inner
