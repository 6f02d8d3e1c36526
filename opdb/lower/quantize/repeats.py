"""Reduces Tiles of five dimensions, which HTP has in floats only (Tile.H2), to fewer: unrepeated dimensions are joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig

TILE = "Tile"
#: The most dimensions of a Tile in integers (Tile.H2).
MOST = 4


def of_fewer_dimensions(graph: QnnGraph) -> QnnGraph:
    """``graph`` with each Tile of more than four dimensions between Reshapes, if joining unrepeated neighbors leaves at most four."""
    if not any(op.op == TILE and len(graph.tensors[op.outputs[0]].shape) > MOST for op in graph.ops):
        return graph
    made = QnnGraph(graph.name, dict(graph.tensors), [])
    for op in graph.ops:
        made.ops += _joined(made, op) if op.op == TILE else [op]
    return made


def _joined(graph: QnnGraph, op: GraphOp) -> list[GraphOp]:
    x, y = graph.tensors[op.inputs[0] or ""], graph.tensors[op.outputs[0]]
    times = [int(t) for p in op.params if p.name == "multiples" for t in np.asarray(p.value).flatten()]
    sizes: list[int] = []
    repeated: list[int] = []
    for size, count in zip(x.shape, times, strict=True):
        if repeated and repeated[-1] == count == 1:
            sizes[-1] *= size
        else:
            sizes.append(size)
            repeated.append(count)
    if len(y.shape) <= MOST or len(sizes) > MOST or x.type == "STATIC":
        return [op]
    held = GraphTensor(f"{op.name}_joined", x.dtype, tuple(sizes), "NATIVE")
    tiled = tuple(s * r for s, r in zip(sizes, repeated, strict=True))
    result = GraphTensor(f"{op.name}_repeated", y.dtype, tiled, "NATIVE")
    graph.tensors |= {held.name: held, result.name: result}
    multiples = ParamConfig("multiples", "u32", tuple(repeated), (len(repeated),))
    return [
        GraphOp(f"{op.name}_join", "Reshape", (x.name,), (), (held.name,), origin=op.origin),
        replace(op, inputs=(held.name,), params=(multiples,), outputs=(result.name,)),
        GraphOp(f"{op.name}_part", "Reshape", (result.name,), (), (y.name,), origin=op.origin),
    ]
