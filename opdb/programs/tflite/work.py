"""The work of an operator of a .tflite file that stays on the CPU: FLOPs, those of the graphs that it runs included.

A WHILE whose condition compares a counter from a constant with a constant runs that often (Keras writes its GRU so); of another, one
run counts, and the figure is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import tflite

from opdb.programs.tflite.file import Operator, Subgraph, Tensor

#: Operators without arithmetic.
MOVES = frozenset({
    "RESHAPE", "TRANSPOSE", "CONCATENATION", "PACK", "UNPACK", "SPLIT", "SPLIT_V", "SLICE", "STRIDED_SLICE", "GATHER", "GATHER_ND",
    "SQUEEZE", "EXPAND_DIMS", "SHAPE", "FILL", "CAST", "TILE", "PAD", "PADV2", "MIRROR_PAD", "SPACE_TO_DEPTH", "DEPTH_TO_SPACE",
    "BATCH_TO_SPACE_ND", "SPACE_TO_BATCH_ND", "SCATTER_ND", "ONE_HOT", "SELECT", "SELECT_V2", "WHERE", "BROADCAST_TO", "RANGE",
    "REVERSE_V2", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE",
})  # fmt: skip
#: Recurrent layers: the weights are their constants of rank 2.
RECURRENT = frozenset({
    "UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN", "BIDIRECTIONAL_SEQUENCE_RNN",
    "LSTM", "RNN", "SVDF",
})  # fmt: skip
ONCE = ("LSTM", "RNN", "SVDF")  # one step for each call


def work(operator: Operator, here: Subgraph, subgraphs: Sequence[Subgraph]) -> tuple[int, bool]:
    """FLOPs of an operator of the subgraph ``here``, and True if they are a lower bound."""
    if operator.name == "WHILE":
        options = _options(operator, tflite.WhileOptions)
        condition, body = (subgraphs[i] for i in (options.CondSubgraphIndex(), options.BodySubgraphIndex()))
        count = runs(operator, here, condition)
        flops, at_least = _both(_graph(condition, subgraphs), _graph(body, subgraphs))
        return flops * (count or 1), at_least or count is None
    if operator.name == "IF":
        options = _options(operator, tflite.IfOptions)
        branches = [subgraphs[i] for i in (options.ThenSubgraphIndex(), options.ElseSubgraphIndex())]
        works = [_graph(b, subgraphs) for b in branches]
        return max(flops for flops, _ in works), any(least for _, least in works)
    return _flops(operator, here), False


def runs(operator: Operator, here: Subgraph, condition: Subgraph) -> int | None:
    """How often a WHILE runs, if its condition says so with constants; else None."""
    compared = {o.name: o for o in condition.operators}.get("LESS")
    if compared is None or len(condition.operators) != 1:
        return None
    counter, limit = (condition.tensors[i] for i in compared.inputs)
    place = compared.inputs[0]
    if limit.data is None or counter.data is not None or place not in condition.inputs:
        return None
    begin = here.tensors[operator.inputs[condition.inputs.index(place)]].data
    return None if begin is None else max(0, int(np.asarray(limit.data)) - int(np.asarray(begin)))


def _graph(graph: Subgraph, subgraphs: Sequence[Subgraph]) -> tuple[int, bool]:
    total = (0, False)
    for operator in graph.operators:
        total = _both(total, work(operator, graph, subgraphs))
    return total


def _both(a: tuple[int, bool], b: tuple[int, bool]) -> tuple[int, bool]:
    return a[0] + b[0], a[1] or b[1]


def _options(operator: Operator, kind: Any) -> Any:
    table = operator.table.BuiltinOptions()
    options = kind()
    options.Init(table.Bytes, table.Pos)
    return options


def _flops(operator: Operator, here: Subgraph) -> int:
    inputs = [here.tensors[i] for i in operator.inputs if i >= 0]
    results = [here.tensors[i] for i in operator.outputs]
    made = sum(prod(max(n, 1) for n in t.shape) for t in results)
    if operator.name in MOVES:
        return 0
    if operator.name in RECURRENT:
        return 2 * _steps(operator, inputs[0]) * sum(prod(t.shape) for t in inputs[1:] if _is_weight(t))
    if operator.name in ("FULLY_CONNECTED", "BATCH_MATMUL"):
        return 2 * made * inputs[0].shape[-1]
    if operator.name in ("CONV_2D", "CONV_3D"):
        return 2 * made * prod(inputs[1].shape[1:] if operator.name == "CONV_2D" else inputs[1].shape[:-1])
    if operator.name == "DEPTHWISE_CONV_2D":
        return 2 * made * prod(inputs[1].shape[1:3])
    if operator.name == "TRANSPOSE_CONV":
        return 2 * prod(inputs[2].shape) * prod((inputs[1].shape[0], *inputs[1].shape[1:3]))
    return made


def _steps(operator: Operator, x: Tensor) -> int:
    """Steps times batch: the first two dimensions of a sequence, the first one of a single step."""
    return prod(x.shape[:1] if operator.name in ONCE else x.shape[:2])


def _is_weight(tensor: Tensor) -> bool:
    return tensor.data is not None and len(tensor.shape) == 2
