"""Adds taps of zero after filters with few taps that HTP computes wrong or does not finalize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.judge.errata.policy import active
from opdb.lower.quantize.encodings import Range
from opdb.lower.workarounds.htp.convolutions import taps_behind

FAULTS = ("HTP-0426", "HTP-0451", "HTP-0452", "HTP-0453")
CONVOLUTION = "DepthWiseConv2d"


def with_zeros(
    graph: QnnGraph, seen: Mapping[str, Range], target: Target, fits: Callable[[GraphOp], bool]
) -> tuple[QnnGraph, dict[str, Range]]:
    """``graph`` with zeros after filters that do not ``fit`` in integers, and as many after their images.

    The results are the same.  Returns ``seen`` with the ranges of the new filters.
    """
    found = dict(seen)
    if not any(active(fault, target) for fault in FAULTS):
        return graph, found
    made = QnnGraph(graph.name, dict(graph.tensors))
    for op in graph.ops:
        more = _missing(graph, op)
        made.ops.append(op if more is None or fits(op) else _widened(made, op, more, found))
    return made, found


def _missing(graph: QnnGraph, op: GraphOp) -> tuple[int, int] | None:
    """The rows and columns of zeros that the filter needs; None for an op whose filter stays."""
    if op.op != CONVOLUTION:
        return None
    weight = graph.tensors[op.inputs[1] or ""]
    taps, stride = weight.shape[:2], [v for p in op.params if p.name == "stride" for v in p.value]
    if weight.type != "STATIC" or (stride != [2, 2] and taps != (1, 1)):
        return None
    more = taps_behind((taps[0], taps[1]), stride)
    return more if any(more) else None


def _widened(graph: QnnGraph, op: GraphOp, more: tuple[int, int], seen: dict[str, Range]) -> GraphOp:
    weight = graph.tensors[op.inputs[1] or ""]
    data = np.asarray(weight.data).reshape(weight.shape)
    wide = np.pad(data, ((0, more[0]), (0, more[1]), (0, 0), (0, 0)))
    name = f"{op.name}_filter_and_zeros"
    graph.tensors[name] = replace(weight, name=name, shape=wide.shape, data=wide)
    seen[name] = seen[weight.name]
    inputs = (op.inputs[0], name, *op.inputs[2:])
    return replace(op, inputs=inputs, params=tuple(_padded(p, more) for p in op.params))


def _padded(param: ParamConfig, more: tuple[int, int]) -> ParamConfig:
    """Adds rows and columns of zeros after the image."""
    if param.name != "pad_amount":
        return param
    top, bottom, left, right = np.asarray(param.value).ravel().tolist()
    return replace(param, value=(top, bottom + more[0], left, right + more[1]))
