"""Forms are judged with their final scales: 16-bit clamps and sigmoids, whose rules depend on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.judge.validate import check
from opdb.lower.quantize import Asked, Range, quantize
from opdb.lower.quantize.encodings import encoding
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import to_real, to_stored

HTP = Target("HTP", "SA8255")
RNG = np.random.default_rng(5)
CALIBRATION = [{"x": RNG.uniform(-3, 3, (1, 8, 8, 4)).astype(np.float32)} for _ in range(4)]


def stack(*behind: GraphOp) -> QnnGraph:
    """x -> Conv2d -> h -> ``behind``, each reading the previous result -> y; every tensor is 1 by 8 by 8 by 4."""
    graph = QnnGraph("stack")
    names = ["x", "h", *(f"h{i}" for i in range(len(behind) - 1)), "y"]
    for name in names:
        kind = {"x": "APP_WRITE", "y": "APP_READ"}.get(name, "NATIVE")
        graph.tensors[name] = GraphTensor(name, "f32", (1, 8, 8, 4), kind)
    conv = GraphOp("conv", "Conv2d", ("x", "w"), convolved(), ("h",))
    graph.tensors["w"] = filter_of("w", (3, 3, 4, 4))
    graph.ops.append(conv)
    for op, read, made in zip(behind, names[1:], names[2:], strict=False):
        for extra in op.inputs:
            graph.tensors[extra or ""] = filter_of(extra or "", (3, 3, 1, 4))
        graph.ops.append(GraphOp(f"{op.name}_{made}", op.op, (read, *op.inputs), op.params, (made,)))
    return graph


def filter_of(name: str, shape: tuple[int, ...]) -> GraphTensor:
    return GraphTensor(name, "f32", shape, "STATIC", RNG.normal(0, 0.5, shape).astype(np.float32))


def convolved() -> tuple[ParamConfig, ...]:
    return ParamConfig("stride", "u32", (1, 1), (2,)), ParamConfig("pad_amount", "u32", (1,) * 4, (2, 2))


RELU6 = GraphOp(
    "relu6", "ElementWiseNeuron", (),
    (ParamConfig("operation", "u32", 5), ParamConfig("min_value", "f32", 0.0), ParamConfig("max_value", "f32", 6.0)),
    (),
)  # fmt: skip
DEPTHWISE = GraphOp("depthwise", "DepthWiseConv2d", ("d",), convolved(), ())
SIGMOID, TANH = GraphOp("sigmoid", "Sigmoid", (), (), ()), GraphOp("tanh", "Tanh", (), (), ())
NEURON = GraphOp("neuron", "ElementWiseNeuron", (), (ParamConfig("operation", "u32", 6),), ())
VIEW = GraphOp("view", "Reshape", (), (), ())
STACKS = {
    "mobilenet": (RELU6, DEPTHWISE, RELU6),
    "sigmoid": (SIGMOID,),
    "sigmoid behind a view": (SIGMOID, VIEW),
    "sigmoid by its number": (NEURON,),
    "tanh": (TANH,),
}


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", list(STACKS))
def test_16_bit_results_on_htp_are_right(name: str) -> None:
    graph = stack(*STACKS[name])
    made = quantize(graph, CALIBRATION, target=HTP, recipe="16a8w")
    assert {t.dtype for t in made.tensors.values() if t.type != "STATIC"} == {"uq16"}
    for op in made.ops:
        verdict = check(made.op_config(op), HTP)
        assert verdict.verdict == "accept" and not verdict.violations
    (x,), (y,) = made.inputs, made.outputs
    with VendorWorker("HTP", "SA8255") as worker:
        result = worker.run(made, {"x": to_stored(x, CALIBRATION[1]["x"])})
    assert result.stage == "done", (result.node, result.log)
    stored = run_graph(made, {"x": to_stored(x, CALIBRATION[1]["x"])})["y"]
    got, want = to_real(y, result.outputs["y"]), to_real(y, stored)
    assert np.abs(got - want).max() <= 1e-3 * max(1.0, float(np.abs(want).max()))


@pytest.mark.parametrize(
    ("ops", "dtype", "scale", "offset"),
    [
        ((SIGMOID,), "uq16", 2.0**-16, 0),
        ((SIGMOID, VIEW), "uq16", 2.0**-16, 0),
        ((SIGMOID,), "uq8", 1 / 255, 0),
        ((TANH,), "uq16", 2.0**-15, -(2**15)),
    ],
)
def test_documented_fixed_encodings_are_used(ops: Any, dtype: str, scale: float, offset: int) -> None:
    made = quantize(stack(*ops), CALIBRATION, target=HTP, recipe=Asked(dtype))
    quant = made.tensors["y"].quant
    assert (
        quant is not None and quant.scale == pytest.approx((scale,), rel=1e-7) and quant.offset == (offset,)
    )


def test_a_fixed_range_keeps_its_steps_if_it_covers_the_values() -> None:
    fixed = Range(0.0, 1.0, (("uq16", 65536),))
    assert Range(0.0, 0.9) | fixed == fixed == Range(0.0, 1.0) | fixed
    assert (fixed | Range(-1.0, 0.5)).steps == ()
    assert encoding(fixed, "uq16", False).scale == (2.0**-16,)
    assert encoding(fixed, "uq8", False).scale == encoding(Range(0.0, 1.0), "uq8", False).scale


def test_a_clamp_limit_inside_the_encoding_becomes_a_minimum() -> None:
    """The upper limit lies inside the range of the result with a margin, and HTP would ignore it there (HTP-0025)."""
    told: list[str] = []
    made = quantize(stack(RELU6), CALIBRATION, target=HTP, recipe="16a8w", margin=0.5, told=told)
    assert not told and not any(op.op == "Quantize" for op in made.ops)
    limits = {op.op: made.tensors[op.inputs[1] or ""] for op in made.ops if op.op == "ElementWiseMinimum"}
    assert to_real(
        limits["ElementWiseMinimum"], np.asarray(limits["ElementWiseMinimum"].data)
    ) == pytest.approx(6.0)
