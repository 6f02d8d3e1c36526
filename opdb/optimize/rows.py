"""read-rows: a FullyConnected reads what a Reshape before it reads, as it takes any shape as rows."""

from __future__ import annotations

from dataclasses import replace

from opdb.graph import GraphOp
from opdb.optimize.edit import Edit, parameter
from opdb.optimize.layouts import VIEWS


def run(edit: Edit) -> int:
    """How many Reshapes were left out."""
    return sum(op.op == "FullyConnected" and _changed(edit, op) for op in edit.live())


def _changed(edit: Edit, op: GraphOp) -> bool:
    view = edit.maker(op.inputs[0])
    if view is None or view.op not in VIEWS or parameter(op, "keep_dims", False):
        return False
    x, rows = edit.tensors[view.inputs[0] or ""], edit.tensors[op.inputs[0] or ""]
    if len(x.shape) < 2 or len(rows.shape) < 2 or x.shape[-1] != rows.shape[-1]:
        return False
    if edit.only_reader(rows.name) is not op:
        return False
    new = replace(op, inputs=(x.name, *op.inputs[1:]))
    return edit.rewrite([view, op], [new], faultless=True)
