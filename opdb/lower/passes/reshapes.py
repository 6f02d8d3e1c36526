"""merge-reshapes: merges chains of Reshapes into one, and removes Reshapes to the same shape."""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphOp
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.layouts import VIEWS


def merge(edit: Edit) -> int:
    """Returns the number of Reshapes that now read an earlier input, or are gone."""
    changed = 0
    for op in edit.ops:
        if edit.has(op) and _moves_nothing(edit, op):
            changed += _merged(edit, op)
    return changed


def _moves_nothing(edit: Edit, op: GraphOp | None) -> bool:
    """True if an op only gives the stored values of a tensor another shape."""
    if op is None or op.op not in VIEWS or any(t is not None for t in op.inputs[1:]):
        return False
    x, y = edit.tensors[str(op.inputs[0])], edit.tensors[op.outputs[0]]
    return x.dtype == y.dtype and x.quant == y.quant


def _merged(edit: Edit, op: GraphOp) -> int:
    source = str(op.inputs[0])
    while (earlier := edit.maker(source)) is not None and _moves_nothing(edit, earlier):
        source = str(earlier.inputs[0])
    made = op.outputs[0]
    same = edit.tensors[source].shape == edit.tensors[made].shape
    if same and edit.inner(made) and edit.readers(made):
        edit.redirect(made, source)
        _drop(edit, op)
        return 1
    if source == op.inputs[0]:
        return 0
    new = replace(op, op="Reshape", inputs=(source,), params=())
    if not edit.legal(new):
        return 0
    first = edit.maker(op.inputs[0])
    edit.replace([op], [new])
    _drop(edit, first)
    return 1


def _drop(edit: Edit, op: GraphOp | None) -> None:
    """Removes an op whose result is no longer read, and the Reshapes before it that only it read."""
    while op is not None and op.op in VIEWS and edit.inner(op.outputs[0]) and not edit.readers(op.outputs[0]):
        before = edit.maker(op.inputs[0])
        edit.replace([op], [])
        op = before
