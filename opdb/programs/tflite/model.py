"""Converts a .tflite file to an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import tflite
from onnx import helper

from opdb.core.errors import OpdbError
from opdb.programs.tflite.file import Subgraph, Tensor, read
from opdb.programs.tflite.graph import DOMAIN, Call, Graph, Unreadable, is_stored
from opdb.programs.tflite.operators import OPERATORS
from opdb.programs.tflite.work import work

#: The first opset with QuantizeLinear of 16 bits and DequantizeLinear of 4 bits.
OPSET = 21


def to_onnx(path: str) -> onnx.ModelProto:
    """The main subgraph of a .tflite file.

    Inputs and outputs have the file's names, types and shapes.  Each node's metadata has its operator
    (opdb.programs.onnx.metadata).  Raises OpdbError for a file that cannot be read.
    """
    return _made(path, Path(path).stat().st_mtime_ns if Path(path).is_file() else 0)


@lru_cache(maxsize=1)
def _made(path: str, changed: int) -> onnx.ModelProto:
    subgraphs = read(path)
    main = subgraphs[0]
    try:
        inputs = [_value(main.tensors[i]) for i in main.inputs]
        outputs = [_value(main.tensors[i]) for i in main.outputs]
    except OpdbError as error:
        raise OpdbError(f"{path}: {error}") from error
    graph = Graph(frozenset(v.name for v in (*inputs, *outputs)))
    values: list[onnx.ValueInfoProto] = []
    names = {i: t.name for i, t in enumerate(main.tensors)}
    _write(graph, subgraphs, main, names, values, "")
    read_names = {name for node in graph.nodes for name in node.input} | {v.name for v in outputs}
    weights = [w for name, w in graph.initializers.items() if name in read_names]
    made = helper.make_graph(graph.nodes, "main", inputs, outputs, weights, value_info=values)
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(made, opset_imports=imports, ir_version=10, producer_name="opdb")


def _value(tensor: Tensor) -> onnx.ValueInfoProto:
    if tensor.kind is None:
        raise OpdbError(
            f"{tensor.name} is a tensor of {tensor.type_name}, and QNN has tensors of numbers only"
        )
    to = helper.np_dtype_to_tensor_dtype(np.dtype(tensor.kind))
    shape = [n if n >= 0 else f"{tensor.name}:{axis}" for axis, n in enumerate(tensor.shape)]  # -1: open
    return helper.make_tensor_value_info(tensor.name, to, shape)


def _write(
    graph: Graph,
    subgraphs: Sequence[Subgraph],
    here: Subgraph,
    names: dict[int, str],
    values: list[onnx.ValueInfoProto],
    number: str,
) -> None:
    """Writes the nodes of a subgraph.  ``number``: number and name of the operator that it is inlined for, else ''."""
    for place, tensor in enumerate(here.tensors):
        if tensor.data is not None:
            graph.constant(names[place], tensor.data)
    for place, operator in enumerate(here.operators, 1):
        if not operator.outputs:  # it changes a variable, whose readers ONNX cannot express
            continue
        text = number or f"{place}: {operator.name}"
        call = Call(graph, here, operator, names, text)
        before, real = len(graph.nodes), dict(graph.real)
        try:
            if operator.name == "STABLEHLO_COMPOSITE":
                _inline(call, subgraphs, values)
            elif operator.custom or operator.name not in OPERATORS:
                kind = "a custom operator" if operator.custom else "an operator that opdb does not read"
                raise Unreadable(f"{operator.name} is {kind}")
            else:
                OPERATORS[operator.name](call)
        except Unreadable as why:
            del graph.nodes[before:]
            graph.real = real
            _leave(call, str(why), work(operator, here, subgraphs), values)


def _inline(call: Call, subgraphs: Sequence[Subgraph], values: list[onnx.ValueInfoProto]) -> None:
    """Writes the subgraph that a composite decomposes into."""
    table = call.operator.table.BuiltinOptions2()
    options = tflite.StableHLOCompositeOptions()
    if table is None:
        raise Unreadable("the file has no options for it")
    options.Init(table.Bytes, table.Pos)
    inner = subgraphs[options.DecompositionSubgraphIndex()]
    start = call.graph.fresh(call.result().name)
    names = {i: f"{start}/{t.name}" for i, t in enumerate(inner.tensors)}
    names.update({i: call.as_stored(k) for k, i in enumerate(inner.inputs)})
    _write(call.graph, subgraphs, inner, names, values, call.place)
    for k, i in enumerate(inner.outputs):
        call.give_stored(names[i], k)


def _leave(call: Call, why: str, amount: tuple[int, bool], values: list[onnx.ValueInfoProto]) -> None:
    for name, tensor in call.alone(why, amount):
        kind = np.float32 if is_stored(tensor) else tensor.kind
        if kind is not None and all(n >= 0 for n in tensor.shape):
            to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
            values.append(helper.make_tensor_value_info(name, to, list(tensor.shape)))
