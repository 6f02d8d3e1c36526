"""sink-transposes: chooses one layout for every tensor of the graph, such that Transposes move as few bytes as possible.

Every Transpose is removed, which makes its result the same tensor in another layout; each op that can work in another
layout (opdb.lower.passes.layouts) chooses one; and if a reader wants another layout than the maker gives, a Transpose is
inserted, one for all readers that want the same, or a Reshape if only dimensions of size 1 move.  So chains merge, pairs
cancel, and Transposes move to where fewer bytes pass.

The graph is changed only if the cheapest layouts that opdb.lower.passes.layout_search finds are cheaper than the original graph.
"""

from __future__ import annotations

from dataclasses import replace

from opdb.core.graph import GraphOp
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.layout_graph import Writer
from opdb.lower.passes.layout_search import LayoutSearch
from opdb.lower.passes.layout_state import LayoutGraph, State
from opdb.lower.passes.layouts import Layout, joined_sizes


def settle(edit: Edit) -> int:
    """Chooses the layouts; returns the number of ops saved, at least 1 if the graph changed."""
    graph = LayoutGraph(edit)
    if not graph.transposes:
        return 0
    before = sum(graph.price(op.outputs[0]) for op in graph.transposes)
    search = LayoutSearch(graph)
    if search.run() >= before:
        return 0
    had = len(edit.ops)
    _write(graph, search.state)
    return max(1, had - len(edit.ops))


def _write(graph: LayoutGraph, state: State) -> None:
    """Replaces the edited graph by the one with the layouts of ``state``."""
    writer = Writer(graph.edit, {t.outputs[0]: t for t in graph.transposes}, graph.base)
    for op, found in zip(graph.ops, state, strict=True):
        inputs = tuple(
            None if name is None or way is None else writer.read(name, way, op)
            for name, way in zip(op.inputs, found.inputs, strict=True)
        )
        outputs = tuple(writer.make(name, way) for name, way in zip(op.outputs, found.outputs, strict=True))
        made = replace(found.op, inputs=inputs, outputs=outputs)
        rows = _rows(graph, state, op)
        writer.add(made if rows is None else writer.with_rows(made, *rows))
    writer.finish()


def _rows(graph: LayoutGraph, state: State, op: GraphOp) -> tuple[tuple[int, ...], Layout] | None:
    """The sizes and the order in which the first input of an op was flattened, if the order changed; else None."""
    source = graph.maker.get(graph.base(op.inputs[0])[0]) if op.inputs and op.inputs[0] else None
    if source is None or (rows := state[source[0]].rows) is None:
        return None
    inputs, outputs = graph.tensors[source[0]]
    assert inputs[0] is not None
    return joined_sizes(inputs[0].shape, outputs[0].shape), rows
