"""Encodings from elsewhere: an ONNX file in floats with them is the graph that its QDQ file is, and AIMET's are read as written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import Tensor, nn

from opdb.coverage.check import read_and_check
from opdb.coverage.graph import build_graph
from opdb.coverage.load import load_program
from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.onnx_modules.encodings import read_encodings
from opdb.targets.target import Target

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.out = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.out(torch.relu(self.conv(x)).mean((2, 3))), -1)


class Reader(CalibrationDataReader):  # type: ignore[misc]  # untyped base
    def __init__(self) -> None:
        self.left = [
            {"x": np.random.default_rng(i).standard_normal((1, 3, 8, 8)).astype(np.float32)} for i in range(3)
        ]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("encodings")
    torch.onnx.export(
        Net().eval(), (torch.zeros(1, 3, 8, 8),), str(made / "net.onnx"), input_names=["x"], output_names=["y"],
        dynamo=True, external_data=False, verbose=False,
    )  # fmt: skip
    return made


def graph_of(path: Path, encodings: Path | None = None) -> QnnGraph:
    program, coverage = read_and_check(
        load_program(str(path), None, None if encodings is None else str(encodings)), HTP
    )
    assert coverage.complete
    return build_graph(program, coverage.lowered, "net")


def described(graph: QnnGraph) -> list[Any]:
    """Types and encodings of what each op reads and writes, in the order of the ops, without a bias's.

    ONNX Runtime leaves out a Relu whose result's encoding begins at 0.
    """
    found = []
    for op in graph.ops:
        if op.op == "Relu":
            continue
        ends = [graph.tensors[n] for n in (*op.inputs, *op.outputs) if n]
        scales = [
            (t.dtype, t.quant and (np.round(t.quant.scale, 7).tolist(), t.quant.offset))
            for t in ends
            if t.dtype != "sq32"
        ]
        found.append((op.op, scales))
    return found


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QUInt8, QuantType.QInt8, QuantType.QUInt16])
def test_the_encodings_of_a_qdq_file_make_its_graph(folder: Path, kind: QuantType, by_channel: bool) -> None:
    quantized = folder / "qdq.onnx"
    quantize_static(
        str(folder / "net.onnx"), str(quantized), Reader(), quant_format=QuantFormat.QDQ, per_channel=by_channel,
        activation_type=kind, weight_type=QuantType.QInt8,
    )  # fmt: skip
    made = graph_of(folder / "net.onnx", quantized)
    kinds = {"sq8": "uq8"}  # activations are stored from 0
    said = [(op, [(kinds.get(t, t), q) for t, q in ends]) for op, ends in described(graph_of(quantized))]
    got = [(op, [(kinds.get(t, t), q) for t, q in ends]) for op, ends in described(made)]
    if kind == QuantType.QInt8:  # the same numbers from another zero point
        strip = lambda rows: [(op, [(t, q and q[0]) for t, q in ends]) for op, ends in rows]  # noqa: E731
        said, got = strip(said), strip(got)
    assert got == said


def aimet(folder: Path, version: str) -> Path:
    """Encodings as AIMET's specification of the version writes them."""
    weights = {
        w.name: onnx.numpy_helper.to_array(w) for w in onnx.load(str(folder / "net.onnx")).graph.initializer
    }
    conv = next(n for n, w in weights.items() if w.ndim == 4)
    scales = np.abs(weights[conv]).max((1, 2, 3)) / 127
    path = folder / f"net-{version}.encodings"
    if version == "1.0.0":
        channels = {
            "enc_type": "PER_CHANNEL",
            "bw": 8,
            "is_sym": True,
            "scale": scales.tolist(),
            "offset": [-128] * 8,
        }
        document: Any = {
            "version": version,
            "activation_encodings": [
                {"name": "x", "dtype": "INT", "enc_type": "PER_TENSOR", "bw": 8, "is_sym": False, "scale": [0.03], "offset": [-120]}
            ],
            "param_encodings": [
                {"name": conv, "dtype": "INT"} | channels
            ],
        }  # fmt: skip
    else:
        one = {
            "bitwidth": 8,
            "dtype": "int",
            "is_symmetric": "False",
            "min": -3.6,
            "max": 4.05,
            "offset": -120,
            "scale": 0.03,
        }
        each = [
            {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "offset": -128, "scale": float(s)}
            for s in scales
        ]
        document = {"version": version, "activation_encodings": {"x": [one]}, "param_encodings": {conv: each}}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("version", ["0.6.1", "1.0.0"])
def test_aimets_encodings(folder: Path, version: str) -> None:
    graph = graph_of(folder / "net.onnx", aimet(folder, version))
    quants = [t.quant for t in graph.tensors.values() if t.quant is not None]
    assert any(np.isclose(q.scale[0], 0.03) and q.offset == (-120,) for q in quants)
    found = read_encodings(str(aimet(folder, version)))
    assert {e.bits for e in found.values()} == {8} and {e.scales.size for e in found.values()} == {1, 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not AIMET's encodings"),
        ('{"activation_encodings": {}, "param_encodings": {}}', "there are no encodings in it"),
        ('{"activation_encodings": {"x": [{"bitwidth": 12, "offset": 0, "scale": 1}]}, "param_encodings": {}}', "x has 12 bits"),
        ('{"activation_encodings": {"x": [{"bitwidth": 8}]}, "param_encodings": {}}', "x: cannot be read"),
        ('{"activation_encodings": {"z": [{"bitwidth": 8, "offset": 0, "scale": 1}]}, "param_encodings": {}}', "none of its 1 names"),
    ],
)  # fmt: skip
def test_what_cannot_be_read(folder: Path, text: str, message: str) -> None:
    (folder / "bad.encodings").write_text(text)
    with pytest.raises(OpdbError, match=message):
        load_program(str(folder / "net.onnx"), None, str(folder / "bad.encodings"))
