"""ONNX files written by ONNX Runtime's quantizer: read as quantized graphs, matching ONNX Runtime on the emulation of HTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import nn
from torch.nn import functional

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import read_and_check
from opdb.execute.dispatch.plan import partition
from opdb.execute.libraries.client import VendorWorker
from opdb.lower.passes import optimize
from opdb.programs.load import load_program
from opdb.runtime.qnn.real_numbers import to_real, to_stored

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
HTP = Target("HTP", "SM8650", execution="emulator")
IMAGE = np.sin(np.arange(768, dtype=np.float32)).reshape(1, 3, 16, 16)
#: Name -> activations, weights, a scale for each channel.
FORMS = {
    "u8s8 by channel": (QuantType.QUInt8, QuantType.QInt8, True),
    "u16s8 by channel": (QuantType.QUInt16, QuantType.QInt8, True),
    "s8s8": (QuantType.QInt8, QuantType.QInt8, False),
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.out = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        z = functional.hardtanh(self.deep(y), 0, 6) + y
        z = functional.adaptive_avg_pool2d(z * torch.sigmoid(z), 1).flatten(1)
        return torch.softmax(self.out(z), -1)


class Images(CalibrationDataReader):  # type: ignore[misc]  # untyped base
    def __init__(self) -> None:
        self.left = [{"x": IMAGE * scale} for scale in (1.0, 0.5, -1.0)]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def in_floats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("qdq") / "floats.onnx"
    torch.onnx.export(
        Net().eval(), (torch.from_numpy(IMAGE),), str(path), input_names=["x"], dynamo=True, external_data=False,
        verbose=False,
    )  # fmt: skip
    return path


def written(in_floats: Path, name: str) -> Path:
    activations, weights, by_channel = FORMS[name]
    path = in_floats.with_name(f"{name}.onnx")
    quantize_static(
        str(in_floats), str(path), Images(), quant_format=QuantFormat.QDQ, per_channel=by_channel,
        activation_type=activations, weight_type=weights,
    )  # fmt: skip
    return path


def by_onnx_runtime(path: Path) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": IMAGE})[0]


@pytest.mark.parametrize("name", FORMS)
def test_a_quantized_file_becomes_a_quantized_graph(in_floats: Path, name: str) -> None:
    path = written(in_floats, name)
    program, coverage = read_and_check(load_program(str(path)), HTP)
    assert coverage.complete, [(r.node, r.reasons) for r in coverage.rows if r.verdict != "supported"]
    graph = optimize(build_graph(program, coverage.lowered, "qdq"), HTP).graph
    computing = {op.op: graph.tensors[op.outputs[0]].dtype for op in graph.ops}
    kind = "uq16" if "u16" in name else name[0].replace("s", "sq").replace("u", "uq") + "8"
    for op in ("Conv2d", "DepthWiseConv2d", "ElementWiseAdd", "FullyConnected", "Softmax"):
        assert computing[op] == kind
    with VendorWorker("HTP", HTP.soc) as vendor:
        result = vendor.run(graph, {graph.inputs[0].name: to_stored(graph.inputs[0], IMAGE)})
    assert result.stage == "done", (result.node, result.log[-5:])
    (end,) = graph.outputs
    got, want = to_real(end, result.outputs[end.name]), by_onnx_runtime(path)
    np.testing.assert_allclose(got, want, atol=4e-4 if kind == "uq16" else 1.01 / 256)


def test_a_node_on_the_host_reads_and_writes_floats(in_floats: Path) -> None:
    program = load_program(str(written(in_floats, "u8s8 by channel")))
    plan = partition(program, HTP, unsupported="host", host_ops=["ElementWiseAdd"])
    ran = [(p.target, p.runs_on) for p in plan.placements if p.runs_on != "nowhere"]
    at = ran.index(("aten.add.Tensor", "kernels"))
    assert ran[at - 1] == ("qnn.Dequantize.default", "qnn") and ran[at + 1] == ("qnn.Quantize.default", "qnn")
