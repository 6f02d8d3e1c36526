"""Float graphs quantized for a target: types, encodings, Converts, reasons, and results of the vendor's libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.judge.validate import check
from opdb.lower.quantize import Asked, WeightType, quantize
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import to_real, to_stored

CPU, HTP, OLD = Target("CPU"), Target("HTP", "SM8650"), Target("HTP", "SM8450")
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(6, 4)).astype(np.float32)
BIAS = RNG.normal(size=6).astype(np.float32)
CALIBRATION = [{"x": RNG.uniform(-1, 2, (8, 4)).astype(np.float32)} for _ in range(4)]


def perceptron() -> QnnGraph:
    """x (8, 4) -> FullyConnected -> h -> Relu -> r -> FullyConnected -> z -> Softmax -> s -> Reshape -> y."""
    tensors = [
        GraphTensor("x", "f32", (8, 4), "APP_WRITE"),
        GraphTensor("w", "f32", (6, 4), "STATIC", WEIGHT),
        GraphTensor("b", "f32", (6,), "STATIC", BIAS),
        GraphTensor("h", "f32", (8, 6)),
        GraphTensor("r", "f32", (8, 6)),
        GraphTensor("v", "f32", (4, 6), "STATIC", WEIGHT.T.copy()),
        GraphTensor("z", "f32", (8, 4)),
        GraphTensor("s", "f32", (8, 4)),
        GraphTensor("y", "f32", (32,), "APP_READ"),
    ]
    ops = [
        GraphOp("up", "FullyConnected", ("x", "w", "b"), (), ("h",)),
        GraphOp("relu", "Relu", ("h",), (), ("r",)),
        GraphOp("down", "FullyConnected", ("r", "v"), (), ("z",)),
        GraphOp("soft", "Softmax", ("z",), (), ("s",)),
        GraphOp("flat", "Reshape", ("s",), (), ("y",)),
    ]
    return QnnGraph("perceptron", {t.name: t for t in tensors}, ops)


def types(graph: QnnGraph) -> dict[str, str]:
    return {n: t.dtype for n, t in graph.tensors.items()}


def test_a_graph_gets_htps_types_and_encodings() -> None:
    made = quantize(perceptron(), CALIBRATION, target=HTP)
    assert types(made) == dict.fromkeys("xhrzsy", "uq8") | {"w": "sq8", "v": "sq8", "b": "sq32"}
    quants: dict[str, Any] = {n: t.quant for n, t in made.tensors.items()}
    assert quants["w"].encoding == "AXIS_SCALE_OFFSET" and len(quants["w"].scale) == 6
    np.testing.assert_allclose(quants["w"].scale, np.abs(WEIGHT).max(1) / 127, rtol=1e-6)
    np.testing.assert_allclose(
        quants["b"].scale, np.multiply(quants["x"].scale, quants["w"].scale), rtol=1e-6
    )
    np.testing.assert_allclose(to_real(made.tensors["b"], made.tensors["b"].data), BIAS, atol=1e-3)
    assert quants["s"] == quants["y"] and quants["s"].scale[0] == pytest.approx(1 / 255)
    seen = run_graph(perceptron().with_intermediates(), CALIBRATION[0])["r"]
    assert quants["r"].offset == (0,) and quants["r"].scale[0] >= seen.max() / 255
    assert all(check(made.op_config(op), HTP).verdict == "accept" for op in made.ops)
    assert types(perceptron())["x"] == "f32"  # the given graph is unchanged


def test_weights_get_a_single_scale_on_cpu() -> None:
    """Weights have a single scale: of scales along an axis this library uses only the first."""
    for wanted, offset in (("sq8", 0), ("uq8", -128)):
        made = quantize(perceptron(), CALIBRATION, target=CPU, recipe=Asked(weights=WeightType(wanted)))
        assert types(made) == dict.fromkeys("xhrzsy", "uq8") | {"w": wanted, "v": wanted, "b": "sq32"}
        quant = made.tensors["w"].quant
        assert quant is not None and quant.encoding == "SCALE_OFFSET" and quant.offset == (offset,)
        assert quant.scale == pytest.approx((np.abs(WEIGHT).max() / 127,), rel=1e-6)
    before = quantize(perceptron(), CALIBRATION, target=Target("CPU", sdk="2.25"))
    assert types(before)["w"] == "uq8"  # the documents of 2.25 have no other


@pytest.mark.vendor
@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("target", "options", "bound"),
    [
        (CPU, {}, 0.03),
        (CPU, {"recipe": Asked(weights=WeightType("uq8"))}, 0.03),
        (HTP, {}, 0.03),
        (HTP, {"recipe": "16a8w"}, 0.01),
        (HTP, {"recipe": "16a16w"}, 0.005),
        (OLD, {"overrides": {"x": "uq16", "h": "uq16"}}, 0.03),
        (HTP, {"overrides": {"r": "uq16", "z": "uq16"}}, 0.03),
    ],
)
def test_quantized_results_are_close_to_floats(target: Target, options: dict[str, Any], bound: float) -> None:
    made = quantize(perceptron(), CALIBRATION, target=target, **options)
    (x,), (y,) = made.inputs, made.outputs
    with VendorWorker(target.backend or "", target.soc) as worker:
        result = worker.run(made, {"x": to_stored(x, CALIBRATION[1]["x"])})
    assert result.stage == "done", (result.node, result.log)
    want = run_graph(perceptron(), CALIBRATION[1])["y"]
    assert np.abs(to_real(y, result.outputs["y"]) - want).max() <= bound


def test_tensors_may_have_different_types() -> None:
    made = quantize(perceptron(), CALIBRATION, target=HTP, overrides={"r": "uq16", "z": "uq16"})
    kinds = types(made)
    assert {n: kinds[n] for n in "xhrzsy"} == dict.fromkeys("xhsy", "uq8") | dict.fromkeys("rz", "uq16")
    converts = [(op.inputs[0], op.outputs[0]) for op in made.ops if op.op == "Convert"]
    assert converts == [("h", "h_uq16"), ("z", "z_uq8")]
    assert kinds["h_uq16"] == "uq16" and kinds["z_uq8"] == "uq8"
    assert [op.op for op in made.ops][1:3] == ["Convert", "Relu"] and made.ops[2].inputs == ("h_uq16",)


def test_a_second_factor_of_16_bits_is_symmetric_or_converted() -> None:
    tensors = [
        GraphTensor("a", "f32", (2, 3), "APP_WRITE"),
        GraphTensor("b", "f32", (3, 2), "APP_WRITE"),
        GraphTensor("y", "f32", (2, 2), "APP_READ"),
    ]
    params = tuple(ParamConfig(f"transpose_in{i}", "bool8", False) for i in range(2))
    graph = QnnGraph("g", {t.name: t for t in tensors}, [GraphOp("m", "MatMul", ("a", "b"), params, ("y",))])
    data = [{"a": np.ones((2, 3), np.float32), "b": np.ones((3, 2), np.float32)}]
    new = quantize(graph, data, target=HTP, recipe="16a8w").tensors
    assert new["a"].quant is not None and new["a"].quant.offset == (0,)
    assert new["b"].quant is not None and new["b"].quant.offset == (-(2**15),)
    old = quantize(graph, data, target=OLD, recipe="16a8w")
    assert [op.op for op in old.ops] == ["Convert", "MatMul"] and old.tensors["b_uq8"].dtype == "uq8"


def with_op(op: str) -> QnnGraph:
    graph = perceptron()
    graph.ops[1] = GraphOp("relu", op, ("h",), (), ("r",))
    return graph


@pytest.mark.parametrize(
    ("graph", "options", "message"),
    [
        (with_op("ElementWiseSin"), {"target": Target("HTP", "QCM6490"), "overrides": {"r": "sq8"}},
         r"node relu \(ElementWiseSin\) cannot be quantized for HTP QCM6490: "),
        (perceptron(), {"target": HTP, "recipe": Asked("f16")}, "'f16' is not a type to quantize to; e.g."),
        (perceptron(), {"target": HTP, "recipe": Asked(weights=WeightType("sq4"))}, "'sq4' is not a type to quantize to; e.g."),
        (perceptron(), {"target": HTP, "overrides": {"q": "uq16"}}, "overrides names 'q', which is not a floating-point tensor"),
        (perceptron(), {"target": HTP, "overrides": {"s": "uq16", "y": "uq8"}}, "s is uq16 and y uq8, but they share"),
        (perceptron(), {"target": HTP, "margin": -1}, "margin: -1 is not a share of a range"),
        (perceptron(), {"target": HTP, "calibration": []}, "give at least one calibration input"),
        (perceptron(), {"target": HTP, "calibration": [{"x": np.full((8, 4), np.nan, np.float32)}]},
         r"the tensor x has a value that is not finite, with calibration input 1"),
        (with_op("Frobnicate"), {"target": HTP}, "node relu: the specs do not hold the op Frobnicate"),
    ],
)  # fmt: skip
def test_unquantizable_graphs_and_options_are_rejected(
    graph: QnnGraph, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(OpdbError, match=message):
        quantize(graph, **{"calibration": CALIBRATION, **options})
