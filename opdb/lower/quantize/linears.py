"""Rewrites linear layers with narrow weights into forms that HTP computes correctly.

With blocks they become 1-by-1 convolutions (HTP-0357), without blocks products of rows (HTP-0433).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.lower.quantize.recipe_types import Asked

LINEAR = "FullyConnected"


def for_narrow_weights(graph: QnnGraph, wish: Asked) -> QnnGraph:
    """Rewrites each FullyConnected of ``graph`` whose static weight, [out, in], gets fewer bits.

    With blocks: Reshape, Conv2d and Reshape.  Without: a Reshape of x to rows before it, if x has more dimensions.
    """
    if wish.weights.bits is None and all(w.bits is None for w in wish.weights_of.values()):
        return graph
    made = QnnGraph(graph.name, dict(graph.tensors), [])
    for op in graph.ops:
        weight = graph.tensors[op.inputs[1] or ""] if op.op == LINEAR else None
        wanted = wish.weights_of.get(op.name, wish.weights)
        if weight is None or weight.type != "STATIC" or wanted.bits is None:
            made.ops.append(op)
        elif wanted.divides(weight.shape, 0):
            made.ops += _convolution(made, op, weight)
        else:
            made.ops += _of_rows(made, op, weight)
    return made


def _of_rows(graph: QnnGraph, op: GraphOp, weight: GraphTensor) -> Iterator[GraphOp]:
    x = graph.tensors[op.inputs[0] or ""]
    if len(x.shape) > 2:
        shape = (math.prod(x.shape) // weight.shape[1], weight.shape[1])
        rows = _fresh(graph, GraphTensor(f"{op.name}_rows", x.dtype, shape, "NATIVE"))
        yield GraphOp(f"{op.name}_to_rows", "Reshape", (x.name,), (), (rows,), origin=op.origin)
        op = replace(op, inputs=(rows, *op.inputs[1:]))
    yield op


def _convolution(graph: QnnGraph, op: GraphOp, weight: GraphTensor) -> Iterator[GraphOp]:
    """Yields the nodes that replace ``op``; adds their tensors."""
    x, y = graph.tensors[op.inputs[0] or ""], graph.tensors[op.outputs[0]]
    channels = weight.shape[1]
    rows = math.prod(x.shape) // channels
    filter = np.ascontiguousarray(np.asarray(weight.data).reshape(weight.shape).T)[None, None]
    image = _fresh(graph, GraphTensor(f"{op.name}_image", x.dtype, (1, 1, rows, channels), "NATIVE"))
    held = _fresh(graph, replace(weight, name=f"{weight.name}_filter", shape=filter.shape, data=filter))
    result = _fresh(graph, GraphTensor(f"{op.name}_result", y.dtype, (1, 1, rows, weight.shape[0]), "NATIVE"))
    sizes = (("stride", (1, 1), (2,)), ("pad_amount", (0, 0, 0, 0), (2, 2)))
    params = tuple(ParamConfig(name, "u32", value, shape) for name, value, shape in sizes)
    yield GraphOp(f"{op.name}_to_image", "Reshape", (x.name,), (), (image,), origin=op.origin)
    yield replace(op, op="Conv2d", inputs=(image, held, *op.inputs[2:]), params=params, outputs=(result,))
    yield GraphOp(f"{op.name}_of_rows", "Reshape", (result,), (), (y.name,), origin=op.origin)


def _fresh(graph: QnnGraph, tensor: GraphTensor) -> str:
    """Adds a tensor, under another name if its own is taken; returns the name."""
    name, n = tensor.name, 1
    while name in graph.tensors:
        n += 1
        name = f"{tensor.name}_{n}"
    graph.tensors[name] = replace(tensor, name=name)
    return name
