"""Encodings that follow from others, through ops that only move data and other ops."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.lower.quantize import Range, propagate
from opdb.lower.quantize.encodings import encoding
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import to_real, to_stored

QUANT = Quant("SCALE_OFFSET", (0.03125,), (-77,))
SHAPES = [(24,), (2, 12), (3, 8), (2, 3, 4), (4, 3, 2), (2, 2, 2, 3), (1, 24, 1)]


class Chain:
    """A growing graph of uq8 that starts at x."""

    def __init__(self) -> None:
        self.tensors = {"x": GraphTensor("x", "uq8", (2, 3, 4), "APP_WRITE")}
        self.ops: list[GraphOp] = []

    def add(
        self, op: str, inputs: tuple[str, ...], params: tuple[ParamConfig, ...], *shapes: Any
    ) -> list[str]:
        names = [f"t{len(self.tensors) + i}" for i in range(len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            self.tensors[name] = GraphTensor(name, "uq8", tuple(int(d) for d in shape))
        self.ops.append(GraphOp(f"n{len(self.ops)}", op, inputs, params, tuple(names)))
        return names

    def graph(self, last: str) -> QnnGraph:
        self.tensors[last] = replace(self.tensors[last], type="APP_READ")
        return QnnGraph("chain", self.tensors, self.ops)


def scalar(name: str, value: int) -> ParamConfig:
    return ParamConfig(name, "u32", value)


def numbers(name: str, values: Any) -> ParamConfig:
    return ParamConfig(name, "u32", tuple(int(v) for v in values), (len(values),))


@st.composite
def chains(draw: st.DrawFn) -> tuple[QnnGraph, Any]:
    """A graph of Reshape, Transpose, and Split with Concat; and the same function on an array."""
    chain, last = Chain(), "x"
    steps: list[Any] = []
    for _ in range(draw(st.integers(1, 6))):
        shape = chain.tensors[last].shape
        kind = draw(st.sampled_from(["Reshape", "Transpose", "Split"]))
        if kind == "Reshape":
            to = draw(st.sampled_from(SHAPES))
            (last,) = chain.add("Reshape", (last,), (), to)
            steps.append(lambda v, to=to: v.reshape(to))
        elif kind == "Transpose":
            perm = draw(st.permutations(range(len(shape))))
            (last,) = chain.add("Transpose", (last,), (numbers("perm", perm),), [shape[p] for p in perm])
            steps.append(lambda v, perm=perm: v.transpose(perm))
        elif max(shape) > 1:
            axis = draw(st.sampled_from([i for i, d in enumerate(shape) if d > 1]))
            at = draw(st.integers(1, shape[axis] - 1))
            parts = [[*shape[:axis], n, *shape[axis + 1 :]] for n in (at, shape[axis] - at)]
            where = scalar("axis", axis)
            halves = chain.add("Split", (last,), (where, numbers("split_index", [at])), *parts)
            (last,) = chain.add("Concat", tuple(reversed(halves)), (where,), shape)
            steps.append(lambda v, axis=axis, at=at: np.concatenate(np.split(v, [at], axis)[::-1], axis))
    if last == "x":
        (last,) = chain.add("Reshape", ("x",), (), (24,))
        steps.append(lambda v: v.reshape(24))

    def moved(values: Any) -> Any:
        for step in steps:
            values = step(values)
        return values

    return chain.graph(last), moved


@given(chains(), st.data())
def test_an_encoding_spreads_through_ops_that_move_data(
    chain: tuple[QnnGraph, Any], data: st.DataObject
) -> None:
    graph, moved = chain
    start = data.draw(st.sampled_from(sorted(graph.tensors)))  # anywhere: it runs both ways
    graph.tensors[start] = replace(graph.tensors[start], quant=QUANT)
    whole = propagate(graph)
    assert {t.quant for t in whole.tensors.values()} == {QUANT}
    (source,), (end,) = whole.inputs, whole.outputs
    real = (np.arange(24, dtype=np.float32) / 32 - 0.25).reshape(source.shape)
    out = run_graph(whole, {"x": to_stored(source, real)})[end.name]
    np.testing.assert_array_equal(to_real(end, out), moved(real))


@given(chains())
def test_missing_encodings_are_an_error(chain: tuple[QnnGraph, Any]) -> None:
    graph, _ = chain
    with pytest.raises(OpdbError, match=r"chain: no encoding is given for, or follows for, .*x"):
        propagate(graph)


def test_other_ops_stop_the_spread() -> None:
    chain = Chain()
    chain.tensors["x"] = replace(chain.tensors["x"], quant=QUANT)
    (flat,) = chain.add("Reshape", ("x",), (), (24,))
    (made,) = chain.add("Relu", (flat,), (), (24,))
    graph = chain.graph(made)
    with pytest.raises(OpdbError, match=f"follows for, {made}; give each a scale and an offset"):
        propagate(graph)
    graph.tensors[made] = replace(graph.tensors[made], quant=Quant("SCALE_OFFSET", (0.5,), (0,)))
    assert propagate(graph).tensors[flat].quant == QUANT


def test_conflicting_encodings_are_rejected() -> None:
    chain = Chain()
    chain.tensors["x"] = replace(chain.tensors["x"], quant=QUANT)
    (flat,) = chain.add("Reshape", ("x",), (), (24,))
    graph = chain.graph(flat)
    graph.tensors[flat] = replace(graph.tensors[flat], quant=Quant("SCALE_OFFSET", (1.0,), (0,)))
    with pytest.raises(OpdbError, match=f"x and {flat} share one encoding, but Quant"):
        propagate(graph)
    graph.tensors[flat] = replace(graph.tensors[flat], quant=None, dtype="uq16")
    with pytest.raises(OpdbError, match=f"x is uq8 and {flat} uq16, .* put a Convert there"):
        propagate(graph)
    along = Quant("AXIS_SCALE_OFFSET", (0.1, 0.2), (0, 0), 0)
    graph.tensors |= {"x": replace(graph.tensors["x"], quant=along), flat: GraphTensor(flat, "uq8", (24,))}
    with pytest.raises(OpdbError, match="x has an encoding along axis 0; it cannot be shared"):
        propagate(graph)


def test_fixed_ranges_and_bias_scales_follow() -> None:
    per_row = Quant("AXIS_SCALE_OFFSET", (0.5, 0.25, 0.125), (0, 0, 0), 0)
    tensors = [
        GraphTensor("x", "uq8", (2, 4), "APP_WRITE", quant=QUANT),
        GraphTensor("w", "sq8", (3, 4), "STATIC", np.ones((3, 4), np.int8), per_row),
        GraphTensor("b", "sq32", (3,), "STATIC", np.ones(3, np.int32)),
        GraphTensor("h", "uq8", (2, 3), quant=Quant("SCALE_OFFSET", (0.1,), (-9,))),
        GraphTensor("s", "uq8", (2, 3)),
        GraphTensor("y", "uq8", (3, 2), "APP_READ"),
    ]
    ops = [
        GraphOp("fc", "FullyConnected", ("x", "w", "b"), (), ("h",)),
        GraphOp("soft", "Softmax", ("h",), (), ("s",)),
        GraphOp("turn", "Transpose", ("s",), (numbers("perm", [1, 0]),), ("y",)),
    ]
    whole = propagate(QnnGraph("g", {t.name: t for t in tensors}, ops)).tensors
    scales = tuple(float(np.float32(0.03125 * s)) for s in per_row.scale)
    assert whole["b"].quant == Quant("AXIS_SCALE_OFFSET", scales, (0, 0, 0), 0)
    assert whole["s"].quant == whole["y"].quant == encoding(Range(0, 1), "uq8", False)
    quant = whole["s"].quant
    assert quant is not None and math.isclose(quant.scale[0], 1 / 255, rel_tol=1e-6)
