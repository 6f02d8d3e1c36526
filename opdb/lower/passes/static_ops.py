"""fold-constants: computes ops that only read constants."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.lower.passes.edit import Edit
from opdb.runtime.kernels import run_graph

#: A constant may be as large as its inputs, or as this: a graph must not grow by what a Tile repeats.
BYTES = 1 << 20
#: Ops whose results do not follow from their inputs.
OTHERS = ("Buffer", "RandomUniformLike")


def run(edit: Edit) -> int:
    """Returns the number of ops computed, in sequence."""
    return sum(_computed(edit, op) for op in edit.live())


def _computed(edit: Edit, op: GraphOp) -> bool:
    read = [edit.tensors[t] for t in op.inputs if t is not None]
    made = [edit.tensors[t] for t in op.outputs]
    if op.op in OTHERS or not read or any(t.type != "STATIC" or t.data is None for t in read):
        return False
    if any(not edit.inner(t.name) for t in made):
        return False
    values = _values(edit, op, read, made)
    if values is None or sum(v.nbytes for v in values) > max(
        BYTES, sum(np.asarray(t.data).nbytes for t in read)
    ):
        return False
    constants = {t.name: replace(t, type="STATIC", data=v) for t, v in zip(made, values, strict=True)}
    if not all(edit.legal(r, constants) for name in constants for r in edit.readers(name)):
        return False
    edit.tensors |= constants
    edit.replace([op], [])
    return True


def _values(
    edit: Edit, op: GraphOp, read: list[GraphTensor], made: list[GraphTensor]
) -> list[np.ndarray] | None:
    """The results of the C kernel; None if there is none for the op and its types."""
    ends = {t.name: replace(t, type="APP_READ") for t in made}
    graph = QnnGraph(op.name, {t.name: t for t in read} | ends, [op])
    try:
        found = run_graph(graph, {})
    except OpdbError:
        return None
    return [found[t.name].copy() for t in made]
