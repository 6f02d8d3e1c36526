"""The work of operators that stay on the CPU: loops as often as they run, recurrent layers by their products."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from opdb.catalog.targets.target import Target
from opdb.checks.verdicts import read_and_check
from opdb.programs.load import load_program

pytestmark = [pytest.mark.torch, pytest.mark.slow]
HTP = Target("HTP", "SM8650")
WIDTH = 16
OPS = schema.BuiltinOperator
F32, I32, BOOL = (getattr(schema.TensorType, n) for n in ("FLOAT32", "INT32", "BOOL"))


class Model:
    """A .tflite file made of its parts."""

    def __init__(self) -> None:
        self.made = schema.ModelT()
        self.made.version, self.made.buffers, self.made.operatorCodes, self.made.subgraphs = (
            3,
            [schema.BufferT()],
            [],
            [],
        )

    def graph(self) -> Any:
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], [], []
        self.made.subgraphs.append(graph)
        return graph

    def tensor(self, graph: Any, name: str, shape: tuple[int, ...], kind: int, data: Any = None) -> int:
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.type, tensor.buffer = name, list(shape), kind, 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            self.made.buffers.append(buffer)
            tensor.buffer = len(self.made.buffers) - 1
        graph.tensors.append(tensor)
        return len(graph.tensors) - 1

    def operator(
        self, graph: Any, code: int, inputs: list[int], outputs: list[int], options: Any = None
    ) -> None:
        found = schema.OperatorCodeT()
        found.builtinCode, found.deprecatedBuiltinCode, found.version = code, min(code, 127), 1
        self.made.operatorCodes.append(found)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = (
            len(self.made.operatorCodes) - 1,
            inputs,
            outputs,
        )
        if options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(
                schema.BuiltinOptions, type(options).__name__.removesuffix("T")
            )
        graph.operators.append(operator)

    def save(self, path: Path) -> str:
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.made.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
        return str(path)


def loop(path: Path, limit: int | None) -> str:
    """x = w x, ``limit`` times, as Keras writes a recurrent layer; None: as often as an input says."""
    model = Model()
    main, condition, body = model.graph(), model.graph(), model.graph()
    x, n = model.tensor(main, "x", (1, WIDTH), F32), model.tensor(main, "n", (), I32)
    zero = model.tensor(main, "zero", (), I32, np.int32(0))
    made = [
        model.tensor(main, f"y{i}", s, k)
        for i, (s, k) in enumerate((((), I32), ((), I32), ((1, WIDTH), F32)))
    ]
    options = schema.WhileOptionsT()
    options.condSubgraphIndex, options.bodySubgraphIndex = 1, 2
    model.operator(main, OPS.WHILE, [zero, n, x], made, options)
    main.inputs, main.outputs = [x, n], made[2:]
    i, m, _ = (
        model.tensor(condition, name, s, k)
        for name, s, k in (("i", (), I32), ("m", (), I32), ("s", (1, WIDTH), F32))
    )
    until = m if limit is None else model.tensor(condition, "limit", (), I32, np.int32(limit))
    less = model.tensor(condition, "less", (), BOOL)
    model.operator(condition, OPS.LESS, [i, until], [less])
    condition.inputs, condition.outputs = [0, 1, 2], [less]
    i, m, s = (
        model.tensor(body, name, shape, k)
        for name, shape, k in (("i", (), I32), ("m", (), I32), ("s", (1, WIDTH), F32))
    )
    one = model.tensor(body, "one", (), I32, np.int32(1))
    weight = model.tensor(body, "w", (WIDTH, WIDTH), F32, np.zeros((WIDTH, WIDTH), np.float32))
    after, product = model.tensor(body, "i1", (), I32), model.tensor(body, "s1", (1, WIDTH), F32)
    model.operator(body, OPS.ADD, [i, one], [after], schema.AddOptionsT())
    model.operator(body, OPS.FULLY_CONNECTED, [s, weight, -1], [product], schema.FullyConnectedOptionsT())
    body.inputs, body.outputs = [0, 1, 2], [after, m, product]
    return model.save(path)


@pytest.mark.parametrize(("limit", "runs"), [(50, 50), (1, 1), (None, 1)])
def test_a_loop_counts_as_often_as_it_runs(tmp_path: Path, limit: int | None, runs: int) -> None:
    _, coverage = read_and_check(load_program(loop(tmp_path / "loop.tflite", limit)), HTP)
    (row,) = (r for r in coverage.rows if r.verdict == "host")
    assert row.flops == runs * (2 * WIDTH * WIDTH + 1 + 1)  # the product, the counter, the comparison
    assert row.at_least == (limit is None)
