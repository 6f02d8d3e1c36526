"""Files of ONNX Runtime's quantizers, AIMET and Quark on the emulation of HTP: types in the graph, numbers, and the report.

ONNX Runtime on the CPU, which runs the files as they are written, is the reference.  benchmarks/_qdq_tools.py makes the files
of AIMET 2.42 and Quark 0.13 in ``files`` from a layer with 32 inputs and 16 outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from torch import Tensor, nn
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage
from opdb.checks.file_names import with_names
from opdb.checks.graph import build_graph
from opdb.checks.notes import unsaid
from opdb.checks.report.plain import table
from opdb.checks.verdicts import read_and_check
from opdb.core.graph import QnnGraph
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.passes import optimize
from opdb.programs.load import load_program
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
HTP = Target("HTP", "SM8650", execution="emulator")
FILES = Path(__file__).parent / "files"
IMAGE, ROWS = (1, 4, 8, 8), (4, 32)


class Images(nn.Module):
    """Ops that ONNX Runtime writes as com.microsoft operators in QOperator format, and as operators on stored integers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.out = nn.Conv2d(4, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.max_pool2d(self.conv(x), 2)
        z = functional.leaky_relu(y, 0.2) * torch.sigmoid(y)
        z = functional.avg_pool2d(torch.cat([z, z + y], 1)[:, 4:12], 3, 1, 1)
        return torch.softmax(self.out(z.mean((2, 3))), -1)


class Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(32, 16) / 6)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


class Reader(CalibrationDataReader):  # type: ignore[misc]  # untyped base
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.left = [{"x": numbers(shape, seed)} for seed in range(3)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def numbers(shape: tuple[int, ...], seed: int = 7) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    for name, module, shape in (("images", Images(), IMAGE), ("rows", Rows(), ROWS)):
        torch.onnx.export(
            module.eval(), (torch.from_numpy(numbers(shape)),), str(made / f"{name}.onnx"), input_names=["x"],
            dynamo=True, external_data=False, verbose=False,
        )  # fmt: skip
    return made


@pytest.fixture(scope="module")
def vendor() -> Any:
    with VendorWorker("HTP", HTP.soc) as worker:
        yield worker


def static(
    folder: Path, source: str, form: QuantFormat, x: QuantType, weight: QuantType, by_channel: bool
) -> Path:
    path, shape = folder / "quantized.onnx", IMAGE if source == "images" else ROWS
    quantize_static(
        str(folder / f"{source}.onnx"), str(path), Reader(shape), quant_format=form, per_channel=by_channel,
        activation_type=x, weight_type=weight,
        # Without VNNI (AVX2 only), ONNX Runtime's sums of u8 times s8 saturate; sums with 7-bit weights do not.
        reduce_range=form == QuantFormat.QOperator,
    )  # fmt: skip
    return path


def n_bits(folder: Path, symmetric: bool, block: int) -> Path:
    quantizer = MatMulNBitsQuantizer(
        onnx.load(str(folder / "rows.onnx")), bits=4, block_size=block, is_symmetric=symmetric
    )
    quantizer.process()
    onnx.save(quantizer.model.model, str(folder / "bits.onnx"))
    return folder / "bits.onnx"


def read(path: Path, float_dtype: str = "f32") -> tuple[QnnGraph, Coverage, str]:
    """The graph, the verdict, and the report; checks that the report lists everything computed in floats."""
    program, coverage = read_and_check(load_program(str(path)), HTP, float_dtype)
    assert coverage.complete, [(r.node, r.reasons) for r in coverage.rows if r.verdict != "supported"]
    assert list(unsaid(program, coverage)) == []
    graph = optimize(build_graph(program, coverage.lowered, "quantized"), HTP).graph
    return graph, coverage, "\n".join(table(with_names(coverage, str(path))))


def both(path: Path, graph: QnnGraph, vendor: VendorWorker) -> tuple[Any, Any]:
    """The results of HTP and of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    x = numbers(tuple(given.shape))
    (start,), (end,) = graph.inputs, graph.outputs
    result = vendor.run(graph, {start.name: to_stored(start, x)})
    assert result.stage == "done", (result.node, result.log[-5:])
    return to_real(end, result.outputs[end.name]), session.run(None, {given.name: x})[0]


def weight_of(graph: QnnGraph, op: str) -> Any:
    (found,) = [o for o in graph.ops if o.op == op]
    return graph.tensors[str(found.inputs[1])]


@pytest.mark.parametrize("form", [QuantFormat.QOperator, QuantFormat.QDQ])
def test_operators_of_an_image_network_stay_quantized(
    folder: Path, vendor: VendorWorker, form: QuantFormat
) -> None:
    path = static(folder, "images", form, QuantType.QUInt8, QuantType.QInt8, False)
    if form == QuantFormat.QOperator:
        kinds = {n.op_type for n in onnx.load(str(path)).graph.node}
        assert kinds >= {
            "QLinearConv",
            "QLinearLeakyRelu",
            "QLinearMul",
            "QLinearConcat",
            "QGemm",
            "QLinearSoftmax",
        }
    graph, _, _ = read(path)
    computing = {op.op: graph.tensors[op.outputs[0]].dtype for op in graph.ops}
    for op in ("Conv2d", "PoolMax2d", "Prelu", "Concat", "FullyConnected", "Softmax"):
        assert computing[op] == "uq8"
    got, want = both(path, graph, vendor)
    np.testing.assert_allclose(got, want, atol=2.01 / 256)


def test_a_matmul_with_a_scale_for_each_channel_stays_quantized(folder: Path, vendor: VendorWorker) -> None:
    path = static(folder, "rows", QuantFormat.QDQ, QuantType.QUInt8, QuantType.QInt8, True)
    graph, _, said = read(path)
    weight = weight_of(graph, "FullyConnected")
    assert (weight.dtype, weight.quant.encoding, len(weight.quant.scale)) == ("sq8", "AXIS_SCALE_OFFSET", 16)
    assert "in floats" not in said
    got, want = both(path, graph, vendor)
    np.testing.assert_allclose(got, want, atol=1.01 * graph.tensors[graph.ops[-1].inputs[0]].quant.scale[0])


def test_int4_stays_int4(folder: Path, vendor: VendorWorker) -> None:
    path = static(folder, "rows", QuantFormat.QDQ, QuantType.QUInt16, QuantType.QInt4, True)
    graph, coverage, said = read(path)
    weight = weight_of(graph, "FullyConnected")
    assert (weight.dtype, weight.quant.encoding, weight.quant.bits) == ("sq8", "BW_AXIS_SCALE_OFFSET", 4)
    assert np.abs(weight.data).max() <= 8 and "widened" not in said
    got, want = both(path, graph, vendor)
    # With weights of 4 bits HTP's sums of 16 bits are up to 64 of 65,536 steps of y off (docs/results/quantized-onnx.md).
    np.testing.assert_allclose(got, want, atol=64 * graph.tensors[graph.ops[-1].inputs[0]].quant.scale[0])
    on_cpu = read_and_check(load_program(str(path)), Target("CPU", execution="emulator"))[1]
    assert any("weight of int4 widened to" in line for r in on_cpu.rows for line in r.said)
    assert not any(r.said for r in coverage.rows)


@pytest.mark.parametrize(("symmetric", "block", "words"), [
    (True, 32, "weight of int4 widened to floats"),
    (True, 16, "weight of int4 in blocks of 16 widened to floats"),
    (False, 16, "weight of int4 with zero points in blocks of 16 widened to floats"),
])  # fmt: skip
def test_matmul_n_bits_matches_onnx_runtime_on_htp(
    folder: Path, vendor: VendorWorker, symmetric: bool, block: int, words: str
) -> None:
    path = n_bits(folder, symmetric, block)
    graph, _, said = read(path)
    assert words in said
    got, want = both(path, graph, vendor)
    np.testing.assert_allclose(got, want, atol=2e-3 * np.abs(want).max())


def test_matmul_n_bits_in_half_precision_stays_int4(folder: Path, vendor: VendorWorker) -> None:
    path = n_bits(folder, True, 32)
    graph, _, said = read(path, "f16")
    weight = weight_of(graph, "FullyConnected")
    assert (weight.quant.encoding, weight.quant.bits) == ("BW_AXIS_SCALE_OFFSET", 4) and "widened" not in said
    got, want = both(path, graph, vendor)
    np.testing.assert_allclose(got, want, atol=2e-3 * np.abs(want).max())


def test_dynamic_quantization_in_floats_is_reported(folder: Path, vendor: VendorWorker) -> None:
    quantize_dynamic(str(folder / "rows.onnx"), str(folder / "dynamic.onnx"), weight_type=QuantType.QInt8)
    graph, _, said = read(folder / "dynamic.onnx")
    assert "DynamicQuantizeLinear in floats: its scale is computed when the model runs" in said
    assert "weight of int8 widened to floats" in said
    got, want = both(folder / "dynamic.onnx", graph, vendor)
    np.testing.assert_allclose(got, want, atol=5e-3 * np.abs(want).max())


def test_aimets_blocks_use_a_convolution(vendor: VendorWorker) -> None:
    """LPBQ: HTP computes FullyConnected with these blocks wrongly (HTP-0357), and a 1 by 1 convolution correctly."""
    path = FILES / "aimet-lpbq-gemm.onnx"
    graph, _, said = read(path)
    weight = weight_of(graph, "Conv2d")
    assert (weight.dtype, weight.quant.encoding) == ("sq8", "BLOCKWISE_EXPANSION")
    assert "widened" not in said
    got, want = both(path, graph, vendor)
    np.testing.assert_allclose(got, want, atol=1e-3 * np.abs(want).max())


@pytest.mark.parametrize("name", ["aimet-w4a16-gemm", "quark-a8w8-gemm", "quark-xint8-softmax"])
def test_files_of_other_tools_match_onnx_runtime(vendor: VendorWorker, name: str) -> None:
    path = FILES / f"{name}.onnx"
    graph, _, said = read(path)
    # Softmax of sq8 with a zero point of 0 (HTP-0427).
    assert ("in floats" in said) == ("softmax" in name)
    got, want = both(path, graph, vendor)
    step = graph.tensors[graph.ops[-1].inputs[0]].quant.scale[0]
    np.testing.assert_allclose(got, want, atol=step * (30 if "a16" in name else 1.01))
