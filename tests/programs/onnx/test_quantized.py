"""Quantized operators of ONNX Runtime, read as PyTorch: ONNX Runtime on the CPU is the reference, on files written by its quantizers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper

from opdb.programs.onnx.graph import to_module

pytestmark = pytest.mark.torch
MS = "com.microsoft"
RANDOM = np.random.default_rng(0)
X = RANDOM.integers(0, 256, (2, 4, 6, 6)).astype(np.uint8)
Y = RANDOM.integers(0, 256, (2, 4, 6, 6)).astype(np.uint8)
ROWS = RANDOM.integers(0, 256, (3, 8)).astype(np.uint8)
F32 = RANDOM.standard_normal((3, 64)).astype(np.float32)
SCALE, ZERO = np.float32(0.03), np.uint8(120)
STEP = np.float32(0.0417)  # hardly a number lies half way between its multiples


def model(op: str, inputs: list[Any], given: int = 1, domain: str = MS, **attributes: Any) -> onnx.ModelProto:
    """One node; the first ``given`` of ``inputs`` are the model's inputs, "" is omitted, the others are stored in the file."""
    names = ["" if isinstance(v, str) else f"i{n}" for n, v in enumerate(inputs)]
    held = [
        numpy_helper.from_array(np.asarray(v), n)
        for n, v in zip(names[given:], inputs[given:], strict=True)
        if n
    ]
    ends = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(names[:given], inputs[:given], strict=True)
    ]
    more = ["scale", "zero"] if op == "DynamicQuantizeLinear" else []
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y", *more], domain=domain, **attributes)], "one", ends,
        [helper.make_empty_tensor_value_info("y")], held,
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def both(made: onnx.ModelProto, inputs: list[Any]) -> tuple[Any, Any]:
    """The results of ONNX Runtime without optimizations, and of the module."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    given = {f"i{n}": v for n, v in enumerate(inputs)}
    tensors = {n: torch.from_numpy(v) for n, v in given.items()}
    with torch.no_grad():
        got = to_module(made, tensors)(*tensors.values())
    return session.run(None, given)[0], got.numpy()


WEIGHT = RANDOM.integers(-127, 128, (8, 5)).astype(np.int8)
SCALES = np.linspace(0.01, 0.03, 5, dtype=np.float32)
TWO = [X, SCALE, ZERO, Y, np.float32(0.02), np.uint8(100), STEP, np.uint8(128)]
ONE = [X, SCALE, ZERO, STEP, np.uint8(110)]
#: Name -> operator, inputs, how many are given, attributes.
STORED: dict[str, tuple[str, list[Any], int, dict[str, Any]]] = {
    "QLinearAdd": ("QLinearAdd", [TWO[0], *TWO[1:]], 1, {}),
    "QLinearMul": ("QLinearMul", TWO, 1, {}),
    "QLinearSigmoid": ("QLinearSigmoid", [X, SCALE, ZERO, np.float32(1 / 256), np.uint8(0)], 1, {}),
    "QLinearLeakyRelu": ("QLinearLeakyRelu", ONE, 1, {"alpha": 0.2}),
    "QLinearAveragePool": (
        "QLinearAveragePool", ONE, 1, {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    ),
    "QLinearGlobalAveragePool": ("QLinearGlobalAveragePool", ONE, 1, {"channels_last": 0}),
    "QLinearGlobalAveragePool, channels last": ("QLinearGlobalAveragePool", ONE, 1, {"channels_last": 1}),
    "QLinearSoftmax": ("QLinearSoftmax", [ROWS, SCALE, ZERO, np.float32(1 / 256), np.uint8(0)], 1, {"axis": -1, "opset": 13}),
    "QLinearConcat": (
        "QLinearConcat", [STEP, np.uint8(100), X, SCALE, ZERO, Y, np.float32(0.02), np.uint8(90)], 0, {"axis": 1}
    ),
    "QGemm": (
        "QGemm",
        [ROWS, SCALE, ZERO, WEIGHT, SCALES, np.zeros(5, np.int8), np.arange(-2, 3, dtype=np.int32) * 900, STEP, ZERO],
        1, {},
    ),
    "QGemm, y in floats": ("QGemm", [ROWS, SCALE, ZERO, WEIGHT, np.float32(0.02), np.int8(0)], 1, {}),
    "QLinearWhere": (
        "QLinearWhere",
        [X > 100, X, SCALE, ZERO, Y, np.float32(0.02), np.uint8(100), STEP, np.uint8(128)], 1, {},
    ),
    "DequantizeLinear": ("DequantizeLinear", [X, SCALE, ZERO], 1, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_operators_on_stored_integers_match_onnx_runtime(name: str) -> None:
    op, inputs, given, attributes = STORED[name]
    wanted, got = both(model(op, inputs, given, **attributes), inputs[:given])
    assert got.dtype == wanted.dtype
    off = np.abs(got.astype(np.float64) - wanted)
    assert off.max() <= (1 if wanted.dtype == np.uint8 else 1e-4) and (off > 1e-4).mean() < 0.02


def test_quantize_linear_matches_onnx_runtime() -> None:
    wanted, got = both(model("QuantizeLinear", [F32, np.float32(0.00002), np.uint16(32768)]), [F32])
    assert got.dtype == wanted.dtype == np.uint16
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("zero", [True, False])
def test_dynamic_quantize_matmul_matches_onnx_runtime(zero: bool) -> None:
    weight = RANDOM.integers(0, 256, (64, 5)).astype(np.uint8)
    more = [np.full(5, 130, np.uint8)] if zero else [np.zeros(5, np.uint8)]
    wanted, got = both(model("DynamicQuantizeMatMul", [F32, weight, SCALES, *more]), [F32])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


def test_matmul_integer_to_float_matches_onnx_runtime() -> None:
    bias = np.linspace(-1, 1, 5, dtype=np.float32)
    inputs = [ROWS, WEIGHT, SCALE, SCALES, ZERO, np.zeros(5, np.int8), bias]
    wanted, got = both(model("MatMulIntegerToFloat", inputs), [ROWS])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("block", [16, 32, 64])
def test_matmul_n_bits_matches_onnx_runtime(bits: int, zero: bool, block: int) -> None:
    blocks = 64 // block
    packed = RANDOM.integers(0, 256, (6, blocks, block * bits // 8)).astype(np.uint8)
    scales = RANDOM.uniform(0.01, 0.03, 6 * blocks).astype(np.float32)
    zeros = [RANDOM.integers(0, 256, 6 * -(-blocks * bits // 8)).astype(np.uint8)] if zero else []
    made = model("MatMulNBits", [F32, packed, scales, *zeros], N=6, K=64, bits=bits, block_size=block)
    wanted, got = both(made, [F32])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-3)


def test_conv_integer_matches_onnx_runtime() -> None:
    filters = RANDOM.integers(-127, 128, (3, 4, 3, 3)).astype(np.int8)
    made = model("ConvInteger", [X, filters, ZERO, np.int8(0)], domain="", pads=[1, 1, 1, 1])
    wanted, got = both(made, [X])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("x", [F32, np.zeros((2, 3), np.float32), np.abs(F32) + 1])
def test_dynamic_quantize_linear_matches_onnx_runtime(x: Any) -> None:
    wanted, got = both(model("DynamicQuantizeLinear", [x], domain=""), [x])
    np.testing.assert_array_equal(got, wanted)
