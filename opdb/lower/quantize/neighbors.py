"""Quantized nodes with constants, in a form that HTP computes correctly whatever their neighbors are.

Lowering writes already quantized programs in this form, too (opdb.lower.workarounds.htp.sums and clamps).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.judge.errata.policy import active
from opdb.runtime.qnn.real_numbers import limits

#: The errata about a constant that is dropped from a sum, and about a limit that is dropped from a maximum.
SUMS, MAXIMA = "HTP-0393", "HTP-0395"
#: The parameter ``operation`` of the equivalent ElementWiseBinary.
ADD, MAXIMUM = 0, 10


def among_neighbors(graph: QnnGraph, target: Target) -> QnnGraph:
    """Writes sums of a constant as differences, and maxima with the number first, if ``target`` has the faults."""
    made = QnnGraph(graph.name, dict(graph.tensors))
    for op in graph.ops:
        if active(SUMS, target) and _is(op, "ElementWiseAdd", ADD):
            op = _difference(made, op)
        elif active(MAXIMA, target) and _is(op, "ElementWiseMaximum", MAXIMUM):
            op = _number_first(made, op)
        made.ops.append(op)
    read = {n for op in made.ops for n in (*op.inputs, *op.outputs)}
    for name, tensor in graph.tensors.items():
        if tensor.type == "STATIC" and name not in read:
            del made.tensors[name]
    return made


def _is(op: GraphOp, name: str, operation: int) -> bool:
    return op.op == name or (op.op == "ElementWiseBinary" and [p.value for p in op.params] == [operation])


def _difference(graph: QnnGraph, op: GraphOp) -> GraphOp:
    """x + c as x - (-c), for a quantized constant of one element, or of one per element of the last dimension."""
    y = graph.tensors[op.outputs[0]]
    for x, name in (op.inputs, op.inputs[::-1]):
        constant = graph.tensors[name or ""]
        if not _is_constant(constant) or math.prod(constant.shape[:-1]) != 1:
            continue
        if math.prod(graph.tensors[x or ""].shape) == 1 or _beyond(constant, y):
            return op
        less = _negated(constant)
        graph.tensors[less.name] = less
        return replace(op, op="ElementWiseSubtract", inputs=(x, less.name), params=())
    return op


def _beyond(constant: GraphTensor, y: GraphTensor) -> bool:
    """True if a 16-bit constant has values that ``y`` does not store; differences of such constants are wrong."""
    if BY_SHORT[constant.dtype].bits == 8 or constant.quant is None or y.quant is None:
        return False
    held = (np.asarray(constant.data, np.float64) + constant.quant.offset[0]) * constant.quant.scale[0]
    low, high = ((n + y.quant.offset[0]) * y.quant.scale[0] for n in limits(y.dtype))
    return bool(held.min() < low - y.quant.scale[0] or held.max() > high + y.quant.scale[0])


def _negated(constant: GraphTensor) -> GraphTensor:
    """-c: (q + offset) * scale with q counted from the other end of the type."""
    assert constant.quant is not None
    ends = sum(limits(constant.dtype))
    data = (ends - np.asarray(constant.data, np.int64)).astype(BY_SHORT[constant.dtype].numpy)
    quant = Quant("SCALE_OFFSET", constant.quant.scale, (-ends - constant.quant.offset[0],))
    return replace(constant, name=f"{constant.name}_negative", data=data, quant=quant)


def _number_first(graph: QnnGraph, op: GraphOp) -> GraphOp:
    x, number = op.inputs
    tensor = graph.tensors[number or ""]
    if graph.tensors[op.outputs[0]].quant is None or math.prod(tensor.shape) != 1:
        return op
    return replace(op, inputs=(number, x))


def _is_constant(tensor: GraphTensor) -> bool:
    quant = tensor.quant
    return tensor.type == "STATIC" and quant is not None and quant.encoding == "SCALE_OFFSET"
