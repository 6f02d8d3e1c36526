"""Converts images at the ends of a graph to channels last, as a camera or a converter's user has them."""

from __future__ import annotations

from dataclasses import replace

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.passes.edit import Edit, transpose
from opdb.lower.passes.layouts import Layout, inverse
from opdb.lower.passes.tensor_layouts import stored

#: keep: the program's layout; nhwc: tensors of four dimensions with the second one moved last.
LAYOUTS = ("keep", "nhwc")
TO_NHWC: Layout = (0, 2, 3, 1)


def check_layout(layout: str) -> None:
    """Raises OpdbError for an unknown layout."""
    if layout not in LAYOUTS:
        raise OpdbError(f"io layout '{layout}': one of {', '.join(LAYOUTS)}")


def channels_last(graph: QnnGraph, target: Target) -> QnnGraph:
    """Returns the graph with every input and output of four dimensions in NHWC instead of NCHW, under its name.

    A Transpose connects each with the rest, which passes may remove; an end whose Transpose the target refuses
    stays as it is.  The axis of a per-axis encoding moves along.
    """
    edit = Edit(graph, target)
    ops: list[GraphOp] = []
    read: dict[str, str] = {}
    for t in (*graph.inputs, *graph.outputs):
        if made := _turned(edit, t):
            last, first = made
            read[t.name] = first.name
            edit.tensors |= {t.name: last, first.name: first}
            if t.type == "APP_WRITE":
                name = edit.fresh(f"{t.name}_nhwc")
                ops.append(transpose(name, t.name, inverse(TO_NHWC), first.name, t.name))
    for op in graph.ops:
        inputs = tuple(None if i is None else read.get(i, i) for i in op.inputs)
        ops.append(replace(op, inputs=inputs, outputs=tuple(read.get(o, o) for o in op.outputs)))
        for o in op.outputs:
            if o in read:
                ops.append(transpose(edit.fresh(f"{o}_nhwc"), read[o], TO_NHWC, o, op.origin))
    return QnnGraph(graph.name, edit.tensors, ops)


def _turned(edit: Edit, end: GraphTensor) -> tuple[GraphTensor, GraphTensor] | None:
    """An end with its channels last, and the inner tensor that replaces it; None if no Transpose can connect them."""
    last = stored(end, TO_NHWC) if len(end.shape) == 4 else None
    if last is None:
        return None
    first = replace(end, name=edit.fresh(f"{end.name}_nchw"), type="NATIVE")
    into = end.type == "APP_WRITE"
    x, y, perm = (last, first, inverse(TO_NHWC)) if into else (first, last, TO_NHWC)
    change = transpose("", x.name, perm, y.name, "")
    return (last, first) if edit.legal(change, {x.name: x, y.name: y}) else None
