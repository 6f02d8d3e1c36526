"""Replaces clamps that HTP computes wrong in integers by a minimum and a maximum with numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.judge.errata.policy import active
from opdb.lower.quantize.encodings import Range

#: Errata that ignore limits inside the range of the result: of ElementWiseNeuron in 8 and 16 bits, of ReluMinMax in 8 and 16 bits.
FAULTS = ("HTP-0024", "HTP-0025", "HTP-0080", "HTP-0081")
#: The number of RELU_MIN_MAX among the operations of ElementWiseNeuron.
CLAMP = 5


def by_limits(
    graph: QnnGraph,
    seen: Mapping[str, Range],
    ranges: Mapping[str, Range],
    target: Target,
    fits: Callable[[GraphOp], bool],
) -> tuple[QnnGraph, dict[str, Range]]:
    """Replaces the clamps that do not ``fit`` in integers in ``graph``; returns ``seen`` with the ranges of the new tensors.

    A limit is left out if no value reaches it and it lies outside the result's encoding (``ranges``, with the tensors that share it).
    """
    found = dict(seen)
    if not any(active(fault, target) for fault in FAULTS):
        return graph, found
    made = QnnGraph(graph.name, dict(graph.tensors))
    for op in graph.ops:
        limits = limits_of(op)
        if limits is None or fits(op):
            made.ops.append(op)
        else:
            made.ops += _minimum_and_maximum(made, op, limits, found, ranges)
    return made, found


def limits_of(op: GraphOp) -> tuple[float, float] | None:
    """The limits of a clamp; None for another op."""
    given = {p.name: p.value for p in op.params}
    if op.op != "ReluMinMax" and (op.op, given.get("operation")) != ("ElementWiseNeuron", CLAMP):
        return None
    if "min_value" not in given or "max_value" not in given:
        return None
    return float(given["min_value"]), float(given["max_value"])


def _minimum_and_maximum(
    graph: QnnGraph,
    op: GraphOp,
    limits: tuple[float, float],
    seen: dict[str, Range],
    ranges: Mapping[str, Range],
) -> list[GraphOp]:
    x, y = graph.tensors[op.inputs[0] or ""], graph.tensors[op.outputs[0]]
    values = seen.get(x.name, Range())
    low, high = limits
    held = ranges.get(y.name, Range())
    steps = [("ElementWiseMinimum", high)] if max(values.high, held.high) > high else []
    if min(values.low, held.low) < low or not steps:
        steps.append(("ElementWiseMaximum", low))
    ops, read = [], x.name
    for i, (kind, limit) in enumerate(steps):
        number = GraphTensor(f"{op.name}_limit_{i}", x.dtype, (1,), "STATIC", np.full(1, limit, np.float32))
        graph.tensors[number.name] = number
        seen[number.name] = Range(min(limit, 0.0), max(limit, 0.0))
        written = y.name
        if i < len(steps) - 1:
            written = f"{op.name}_below"
            graph.tensors[written] = replace(y, name=written, type="NATIVE")
            seen[written] = Range(values.low, max(min(values.high, limit), 0.0))
        ops.append(GraphOp(f"{op.name}_{i}", kind, (read, number.name), (), (written,), origin=op.origin))
        read = written
    return ops
