"""Elementwise functions as tables, on emulated chips without floating point: values against PyTorch in floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.execute.compile.model import lowered
from opdb.execute.compile.quantized_check import quantized_coverage
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.quantize import named, quantize
from opdb.lower.quantize.tables import entries, source
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = [pytest.mark.vendor, pytest.mark.torch]
Function = Callable[..., Any]
WITHOUT, LATER = "QCM6490", "SM8635"


class Module(torch.nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x)


def made_of(
    function: Function, x: torch.Tensor, soc: str, scheme: str, told: list[str] | None = None
) -> QnnGraph:
    """The quantized graph, calibrated on ``x``."""
    target = Target("HTP", soc, execution="emulator")
    _, graph = lowered(torch.export.export(Module(function), (x,)), target, "g", to_quantize=True)
    assert graph is not None
    given = {graph.inputs[0].name: x.numpy()}
    return quantize(graph, [given], target=target, recipe=scheme, told=told)


def run(made: QnnGraph, x: torch.Tensor, soc: str) -> list[Any]:
    """The results as real numbers."""
    with VendorWorker("HTP", soc) as worker:
        result = worker.run(made, {made.inputs[0].name: to_stored(made.inputs[0], x.numpy())})
    assert result.stage == "done", (result.node, result.log)
    return [to_real(t, result.outputs[t.name]) for t in made.outputs]


def values(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0)) * 10 - 4


#: Name -> the function, and a transform of numbers between -4 and 6 applied first; each is one QNN op.
ALONE: dict[str, tuple[Function, Function]] = {
    "log": (torch.log, lambda x: x.abs() + 0.2),
    "sin": (torch.sin, lambda x: x),
    "cos": (torch.cos, lambda x: x),
    "rsqrt": (torch.rsqrt, lambda x: x.abs() + 0.2),
    "exp2": (torch.exp2, lambda x: x / 2),
}


@pytest.mark.parametrize("soc", [WITHOUT, LATER])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", ALONE)
def test_a_table_has_the_functions_values(name: str, scheme: str, batch: int, soc: str) -> None:
    """In 8 bits the step of y nearest to f(stored x); in 16 bits that of an x at most two steps away."""
    function, before = ALONE[name]
    x = before(values(batch, 6, 7, 8))
    told: list[str] = []
    made = made_of(function, x, soc, scheme, told)
    assert [line.split(":")[0] for line in told] == ["as a table"]
    (found,) = run(made, x, soc)
    x_step, y_step = (t.quant.scale[0] for t in (made.inputs[0], made.outputs[0]) if t.quant)
    stored = to_real(made.inputs[0], to_stored(made.inputs[0], x.numpy())).astype(np.float64)
    off = 0 if scheme == "8a8w" else 2
    near = [function(torch.from_numpy(stored + k * x_step)).numpy() for k in range(-off, off + 1)]
    ends = to_real(made.outputs[0], np.array([0, 255 if scheme == "8a8w" else 65535]))
    assert (found >= np.clip(np.min(near, axis=0), *ends) - 0.501 * y_step).all()
    assert (found <= np.clip(np.max(near, axis=0), *ends) + 0.501 * y_step).all()
    assert np.abs(found - function(x).numpy()).max() < (0.2 if scheme == "8a8w" else 0.01)


#: Name -> the function, and its minimum signal-to-noise ratio in dB, in 8 and in 16 bits.
FUNCTIONS: dict[str, tuple[Function, float, float]] = {
    "log of 1 more": (lambda x: torch.log1p(x.abs()), 40, 85),
    "tan": (lambda x: torch.tan(x / 5), 34, 68),
    "softplus": (functional.softplus, 40, 85),
    "mish": (functional.mish, 37, 80),
    "logsigmoid": (functional.logsigmoid, 40, 85),
    "log_softmax": (lambda x: functional.log_softmax(x, -1), 40, 85),
    "logsumexp": (lambda x: torch.logsumexp(x, -1), 40, 85),
    "expm1": (lambda x: torch.expm1(x / 4), 37, 75),
    "erf": (torch.erf, 33, 65),
    "reciprocal": (lambda x: torch.reciprocal(x.abs() + 1), 37, 65),
    "sqrt": (lambda x: torch.sqrt(x.abs()), 36, 65),
    "asinh": (torch.asinh, 37, 70),
    "rms": (lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5), 37, 80),
}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_several_ops_become_tables(name: str, scheme: str, batch: int) -> None:
    function, *bounds = FUNCTIONS[name]
    x = values(batch, 8, 16)
    (found,) = run(made_of(function, x, WITHOUT, scheme), x, WITHOUT)
    want = function(x).numpy().astype(np.float64)
    noise = ((found.reshape(want.shape) - want) ** 2).sum()
    assert 10 * np.log10((want**2).sum() / noise) > bounds[scheme != "8a8w"]


@pytest.mark.parametrize("scheme", ["8a8w", "16a8w"])
def test_tables_work_between_convolutions(scheme: str) -> None:
    """The tensor has rank 4, in image layout; the two tables of one tensor share their indices."""
    weight = torch.rand(8, 3, 3, 3, generator=torch.Generator().manual_seed(1)) / 5 - 0.1

    def function(x: torch.Tensor) -> torch.Tensor:
        y = functional.conv2d(x, weight, padding=1)
        return functional.conv2d(torch.sin(y) * torch.cos(y), weight[:, :1].expand(8, 8, 3, 3))

    x = values(1, 3, 56, 56)
    made = made_of(function, x, WITHOUT, scheme)
    assert [op.op for op in made.ops].count("Gather") == 2
    assert [op.op for op in made.ops].count("Cast") == (1 if scheme == "8a8w" else 2)
    (found,) = run(made, x, WITHOUT)
    want = function(x).numpy()
    noise = ((found.reshape(want.shape) - want) ** 2).sum()
    assert 10 * np.log10((want**2).sum() / noise) > (24 if scheme == "8a8w" else 40)


def of_log(low: float) -> tuple[QnnGraph, GraphTensor, GraphTensor]:
    """log of x from ``low`` to ``low`` + 25.5, stored from -2 to 3.1."""
    x = GraphTensor("x", "f32", (2, 4), "APP_WRITE")
    y = GraphTensor("y", "f32", (2, 4), "APP_READ")
    graph = QnnGraph("g", {"x": x, "y": y}, [GraphOp("log", "ElementWiseLog", ("x",), (), ("y",))])
    of_x = Quant("SCALE_OFFSET", (0.1,), (round(low * 10),))
    of_y = Quant("SCALE_OFFSET", (0.02,), (-100,))
    return graph, replace(x, dtype="uq8", quant=of_x), replace(y, dtype="uq8", quant=of_y)


def test_entries_beyond_the_domain_are_finite() -> None:
    """log(-1) is undefined: the nearest x with a value counts, which is 0, and log(0) is the end of y's range."""
    graph, x, y = of_log(-3.0)
    found = entries(graph, graph.ops[0], x, y)
    assert found.dtype == np.uint8
    assert (found[:31] == 0).all()
    reals = np.log((np.arange(31, 256) - 30) * np.float64(np.float32(0.1)))
    np.testing.assert_array_equal(found[31:], np.clip(np.rint(reals / np.float32(0.02)) + 100, 0, 255))


def test_a_function_without_any_value_is_an_error() -> None:
    graph, x, y = of_log(-30.0)
    with pytest.raises(OpdbError, match=r"node log .ElementWiseLog. has no value anywhere in the range of x"):
        entries(graph, graph.ops[0], x, y)


def test_functions_of_one_tensor_can_be_tables() -> None:
    """Other inputs may be constants of one element; a sum along an axis or a product of two tensors is no table."""
    graph, _, _ = of_log(0.0)
    graph.tensors["two"] = GraphTensor("two", "f32", (1,), "STATIC", np.float32([2.0]))
    graph.tensors["row"] = GraphTensor("row", "f32", (4,), "STATIC", np.float32([2.0] * 4))
    axes = ParamConfig("axes", "u32", (1,), (1,))
    assert source(graph, graph.ops[0]) == "x"
    assert source(graph, GraphOp("n", "ElementWisePower", ("two", "x"), (), ("y",))) == "x"
    assert source(graph, GraphOp("n", "ElementWiseMultiply", ("x", "x"), (), ("y",))) == "x"
    assert not source(graph, GraphOp("n", "ElementWisePower", ("row", "x"), (), ("y",)))
    assert not source(graph, GraphOp("n", "ElementWiseMultiply", ("x", "y"), (), ("y",)))
    assert not source(graph, GraphOp("n", "ReduceSum", ("x",), (axes,), ("y",)))


def test_check_reports_nodes_that_become_tables() -> None:
    x = values(2, 8, 16)
    program = torch.export.export(Module(functional.softplus), (x,))
    coverage = quantized_coverage(program, Target("HTP", WITHOUT, execution="emulator"), named("8a8w"))
    (row,) = coverage.rows
    assert row.verdict == "supported"
    assert [said.partition(":")[0] for said in row.said] == ["as a table"]
    assert "the dtype of x must be f16 or f32" in row.said[0]


def test_tables_of_signed_types_are_refused() -> None:
    x = values(2, 8, 16)
    target = Target("HTP", WITHOUT, execution="emulator")
    _, graph = lowered(torch.export.export(Module(torch.sin), (x,)), target, "g", to_quantize=True)
    assert graph is not None
    name = graph.inputs[0].name
    with pytest.raises(OpdbError, match=r"nor is it a table: a table is of uq8 or uq16, and .* is sq8"):
        quantize(graph, [{name: x.numpy()}], target=target, overrides={name: "sq8"})
