"""Real numbers as inputs and outputs of a graph: against exact arithmetic, and on the vendor's CPU library."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, Quant
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.real_numbers import limits, to_real, to_stored

EXACT = ("uq8", "sq8", "uq16", "sq16")
scales = st.floats(2.0**-40, 2.0**20, width=32)
reals = st.floats(-(2.0**24), 2.0**24, width=32, allow_subnormal=False) | st.sampled_from([np.inf, -np.inf])


def nearest(value: float, scale: float, offset: int, dtype: str) -> int:
    """Exact arithmetic: round(value / scale) half to even, minus the offset, saturated."""
    low, high = limits(dtype)
    if np.isinf(value):
        return high if value > 0 else low
    return min(max(round(Fraction(value) / Fraction(scale)) - offset, low), high)


@st.composite
def encoded(draw: st.DrawFn) -> tuple[GraphTensor, np.ndarray[Any, Any]]:
    """A tensor with an encoding, and real values for it; half of them lie between two stored ones."""
    dtype = draw(st.sampled_from(EXACT))
    low, high = limits(dtype)
    shape = draw(st.sampled_from([(6,), (2, 3), (3, 2, 1)]))
    axis = draw(st.none() | st.integers(0, len(shape) - 1))
    count = 1 if axis is None else shape[axis]
    scale = tuple(draw(st.lists(scales, min_size=count, max_size=count)))
    offset = tuple(draw(st.lists(st.integers(-high, -low), min_size=count, max_size=count)))
    kind = "SCALE_OFFSET" if axis is None else "AXIS_SCALE_OFFSET"
    tensor = GraphTensor("x", dtype, shape, "APP_WRITE", None, Quant(kind, scale, offset, axis))
    ties = [
        np.float32((draw(st.integers(low, high)) + draw(st.sampled_from([0, 0.5])) + o) * s)
        for s, o in zip(scale * 6, offset * 6, strict=False)
    ]
    values = draw(st.lists(reals | st.sampled_from(ties), min_size=6, max_size=6))
    return tensor, np.array(values, np.float32).reshape(shape)


def slices(tensor: GraphTensor) -> list[tuple[tuple[int, ...], float, int]]:
    quant = tensor.quant
    assert quant is not None
    places = list(np.ndindex(tensor.shape))
    which = [0 if quant.axis is None else p[quant.axis] for p in places]
    return [(p, quant.scale[i], quant.offset[i]) for p, i in zip(places, which, strict=True)]


@given(encoded())
def test_quantization_matches_exact_arithmetic(case: tuple[GraphTensor, np.ndarray[Any, Any]]) -> None:
    tensor, values = case
    stored = to_stored(tensor, values)
    assert stored.dtype == BY_SHORT[tensor.dtype].numpy and stored.shape == tensor.shape
    for place, scale, offset in slices(tensor):
        assert int(stored[place]) == nearest(float(values[place]), scale, offset, tensor.dtype)


@given(encoded(), st.integers(0, 2**32 - 1))
def test_dequantization_matches_exact_arithmetic(
    case: tuple[GraphTensor, np.ndarray[Any, Any]], seed: int
) -> None:
    tensor, _ = case
    low, high = limits(tensor.dtype)
    stored = np.random.default_rng(seed).integers(low, high + 1, tensor.shape)
    stored = stored.astype(BY_SHORT[tensor.dtype].numpy)
    real = to_real(tensor, stored)
    assert real.dtype == np.float32
    for place, scale, offset in slices(tensor):
        exact = (int(stored[place]) + offset) * Fraction(scale)
        assert real[place] == np.float32(float(exact))
    np.testing.assert_array_equal(to_stored(tensor, real), stored)  # values a step apart remain distinct


def test_zero_is_stored_exactly() -> None:
    for dtype in EXACT:
        low, _ = limits(dtype)
        tensor = GraphTensor("x", dtype, (1,), quant=Quant("SCALE_OFFSET", (0.3,), (-low - 5,)))
        assert to_real(tensor, to_stored(tensor, np.zeros(1)))[0] == 0


@pytest.mark.parametrize(
    ("quant", "values", "message"),
    [
        (None, np.zeros(2), "tensor x: uq8 without an encoding; give it a scale and an offset"),
        (Quant("SCALE_OFFSET", (0.5,), (0,)), np.array([0, np.nan]), "tensor x: NaN has no quantized value"),
        (
            Quant("SCALE_OFFSET", (0.5,), (0,)),
            np.zeros(3),
            r"values of shape \[3\] do not fill the shape \[2\]",
        ),
        (Quant("SCALE_OFFSET", (0.5,), (0,)), np.array(["a", "b"]), "real numbers are wanted, got <U1"),
        (Quant("SCALE_OFFSET", (0.0,), (0,)), np.zeros(2), "an encoding has positive scales"),
        (Quant("SCALE_OFFSET", (np.nan,), (0,)), np.zeros(2), "an encoding has positive scales"),
        (
            Quant("AXIS_SCALE_OFFSET", (0.5,) * 3, (0,) * 3, 0),
            np.zeros(2),
            "3 scales along axis 0 do not fit",
        ),
        (
            Quant("BLOCK", (0.5,), (0,), block_size=(1,)),
            np.zeros(2),
            "not BLOCK; pass stored values",
        ),
    ],
)
def test_invalid_conversions_are_rejected(quant: Quant | None, values: Any, message: str) -> None:
    tensor = GraphTensor("x", "uq8", (2,), quant=quant)
    with pytest.raises(ConfigError, match=message):
        to_stored(tensor, values)


def add(dtype: str, quant: Quant | None = None) -> QnnGraph:
    ends = (("a", "APP_WRITE"), ("b", "APP_WRITE"), ("y", "APP_READ"))
    tensors = {n: GraphTensor(n, dtype, (2, 3), t, quant=quant) for n, t in ends}
    return QnnGraph("add", tensors, [GraphOp("add", "ElementWiseAdd", ("a", "b"), (), ("y",))])


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
def test_a_graph_converts_real_inputs_and_outputs() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-1, 1, (2, 2, 3))
    quant = Quant("SCALE_OFFSET", (1 / 64,), (-128,))
    with Backend.open("CPU") as backend:
        with backend.prepare(add("uq8", quant)) as graph:
            y = graph.execute_real({"a": a, "b": b})["y"]
            assert y.dtype == np.float32
            np.testing.assert_allclose(y, np.clip(a + b, -2, 127 / 64), atol=1.5 / 64)
            with pytest.raises(ConfigError, match="input a: NaN has no quantized value"):
                graph.execute_real({"a": np.full((2, 3), np.nan), "b": b})
            with pytest.raises(ConfigError, match=r"got a$"):
                graph.execute_real({"a": a})
        with backend.prepare(add("f32")) as graph:
            np.testing.assert_allclose(graph.execute_real({"a": a, "b": b})["y"], a + b, atol=1e-6)
        with backend.prepare(add("i32")) as graph:
            ones = np.ones((2, 3), np.int32)
            assert (graph.execute_real({"a": ones, "b": ones})["y"] == 2).all()


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(("name", "soc"), [("CPU", None), ("HTP", "SM8650")])
def test_arrays_are_read_and_written_in_place(name: str, soc: str | None) -> None:
    a, b, y = np.ones((2, 3), np.float32), np.full((2, 3), 2, np.float32), np.zeros((2, 3), np.float32)
    turned, double = np.arange(6, dtype=np.float32).reshape(3, 2).T, np.full((2, 3), 2.0)
    with Backend.open(name, soc) as backend, backend.prepare(add("f32")) as graph:
        bound = graph.bind({"a": a, "b": b}, {"y": y})
        assert np.shares_memory(bound.inputs["a"], a) and np.shares_memory(bound.inputs["b"], b)
        assert bound.outputs["y"] is y
        bound.run()
        np.testing.assert_allclose(y, 3, rtol=1e-6)  # HTP goes through float16
        a[...] = 10  # the library reads the caller's memory without binding it again
        bound.run()
        np.testing.assert_allclose(y, 12, rtol=1e-6)
        copied = graph.bind({"a": turned, "b": double})  # another layout, another type: copied, once
        assert not np.shares_memory(copied.inputs["a"], turned)
        assert not np.shares_memory(copied.inputs["b"], double)
        first = copied.run()["y"]
        np.testing.assert_allclose(first, turned + 2, rtol=1e-6)
        before = first.ctypes.data
        turned[...] = -1
        assert copied.run()["y"].ctypes.data == before  # the same memory again
        np.testing.assert_allclose(copied.outputs["y"], np.arange(6).reshape(3, 2).T + 2, rtol=1e-6)
