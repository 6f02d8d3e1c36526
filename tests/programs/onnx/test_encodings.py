"""Encodings from files: a float ONNX file with them gives the graph of its QDQ file, and AIMET's are read as written.

``files`` has a model of Conv, Relu, GlobalAveragePool, Flatten and Gemm with the exports of AIMET 2.42 for it (int8, a scale for each
channel, htp_v73): its encodings in each version, and the QDQ file with the same encodings, which ONNX Runtime runs.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from torch import Tensor, nn

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import read_and_check
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.programs.load import load_program
from opdb.programs.onnx.encodings import read_encodings

from ...cli.compiling import Here

pytestmark = pytest.mark.torch
HTP = Target("HTP", "SM8650")
FILES = Path(__file__).parent / "files"
VERSIONS = ("0.6.1", "1.0.0", "2.0.0", "2.0.0-signed")
Values = np.ndarray[Any, Any]


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
    """Types and encodings of each op's inputs and outputs, in op order, without a bias's.

    ONNX Runtime drops a Relu if its result's encoding begins at 0.
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
def test_encodings_of_a_qdq_file_give_its_graph(folder: Path, kind: QuantType, by_channel: bool) -> None:
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
    """Encodings in the format of AIMET's specification of the version."""
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
def test_aimets_encodings_are_read(folder: Path, version: str) -> None:
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
def test_malformed_encodings_are_rejected(folder: Path, text: str, message: str) -> None:
    (folder / "bad.encodings").write_text(text)
    with pytest.raises(OpdbError, match=message):
        load_program(str(folder / "net.onnx"), None, str(folder / "bad.encodings"))


def model(
    path: Path, nodes: list[Any], x: list[int], y: list[int], weights: dict[str, Values] | None = None
) -> Path:
    """A model from ``x`` to ``y``."""
    value = helper.make_tensor_value_info
    held = [numpy_helper.from_array(w, name) for name, w in (weights or {}).items()]
    ends = [value("x", TensorProto.FLOAT, x)], [value("y", TensorProto.FLOAT, y)]
    graph = helper.make_graph(nodes, "graph", *ends, held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)
    return path


def version_2(path: Path, **tensors: tuple[Any, ...]) -> Path:
    """Writes encodings by name: the data type, the scale or scales, the zero point or points, the axis."""
    fields = ("output_dtype", "y_scale", "y_zero_point", "axis")
    entries = [{"name": n, **dict(zip(fields, t, strict=False))} for n, t in tensors.items()]
    path.write_text(json.dumps({"version": "2.0.0", "encodings": entries}))
    return path


def version_0(path: Path, **tensors: tuple[Any, ...]) -> Path:
    """Writes the encodings in version 0.6.1, without the axis."""
    found = {}
    for name, (kind, scales, zeros, *_) in tensors.items():
        each = np.broadcast_arrays(np.atleast_1d(scales), np.atleast_1d(zeros))
        half = 0 if kind[0] == "u" else 1 << int(kind.removeprefix("int")) - 1
        found[name] = [
            {
                "bitwidth": int(kind.lstrip("uint")),
                "dtype": "int",
                "scale": float(s),
                "offset": -int(z) - half,
            }
            for s, z in zip(*each, strict=True)
        ]
    path.write_text(json.dumps({"version": "0.6.1", "activation_encodings": found, "param_encodings": {}}))
    return path


def encoded(values: Values, kind: str, scale: Any, zero: int = 0, axis: int = 0) -> Values:
    """``values`` rounded to stored integers, as real numbers."""
    scales = np.asarray(scale, np.float64)
    if scales.ndim:
        scales = scales.reshape([-1 if d == axis else 1 for d in range(values.ndim)])
    ends = np.iinfo(kind)
    stored = np.clip(np.rint(values / scales) + zero, ends.min, ends.max)
    return np.asarray((stored - zero) * scales)


def on_steps(shape: tuple[int, ...], scale: float, zero: int = 0, seed: int = 0) -> Values:
    """Inputs exact in uint8: HTP rounds floats to 16 bits first, which would move others to the next step."""
    stored = np.random.default_rng(seed).integers(0, 256, shape)
    return np.asarray((stored - zero) * scale, np.float32)


def convolved(x: Values, w: Values) -> Values:
    return np.asarray(torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1).numpy())


def ran(call: Here, path: Path, encodings: Path, x: Values, folder: Path) -> Values:
    """The result of `opdb compile` and `opdb run` for ``x``, in floats."""
    context, given, results = folder / "made.bin", folder / "given.npz", folder / "out.npz"
    how = ("--soc", "SM8650", "--execution", "emulator", "--encodings", encodings)
    made = call("compile", path, *how, "-o", context)
    assert made.code == 0, made.err + made.out
    np.savez(given, x=x)
    done = call("run", context, "--inputs", given, "--outputs", results, "--real")
    assert done.code == 0, done.err
    return np.asarray(np.load(results)["y"])


CONV = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", pads=[1, 1, 1, 1])


@pytest.mark.vendor
@pytest.mark.parametrize("written", [version_0, version_2])
def test_a_relu_uses_its_encodings(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: Any) -> None:
    call, path = (
        Here(capsys),
        model(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 64], [1, 64]),
    )
    x = np.linspace(-1.5, 1.5, 64, dtype=np.float32)[None]
    both = written(tmp_path / "both.encodings", x=("uint8", 1 / 64, 96), y=("uint8", 1 / 128, 0))
    wanted = np.maximum(encoded(x, "uint8", 1 / 64, 96), 0)
    np.testing.assert_allclose(ran(call, path, both, x, tmp_path), wanted, atol=1.01 / 128)
    one = written(tmp_path / "one.encodings", y=("uint8", 1 / 128, 0))
    wanted = encoded(np.maximum(x, 0), "uint8", 1 / 128)
    np.testing.assert_allclose(ran(call, path, one, x, tmp_path), wanted, atol=1.01 / 128)


@pytest.mark.vendor
@pytest.mark.parametrize("written", [version_0, version_2])
@pytest.mark.parametrize("relu", [False, True])
def test_a_convolution_uses_its_encodings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], relu: bool, written: Any
) -> None:
    """The weight is in floats, with one encoding, and with one per channel, of very different sizes."""
    rng, call = np.random.default_rng(0), Here(capsys)
    w = (rng.standard_normal((8, 3, 3, 3)) * 2.0 ** np.arange(-6, 2)[:, None, None, None]).astype(np.float32)
    nodes = [CONV]
    if relu:
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"]),
        ]
    path = model(tmp_path / "conv.onnx", nodes, [1, 3, 8, 8], [1, 8, 8, 8], {"w": w})
    x = on_steps((1, 3, 8, 8), 1 / 255)
    ends = {"x": ("uint8", 1 / 255, 0), "y": ("uint8", 1 / 8, 0 if relu else 128)}
    scales = np.abs(w).max((1, 2, 3)) / 127
    real = encoded(x, "uint8", 1 / 255).astype(np.float32)
    for name, weight, kept in (
        ("floats", {}, w),
        ("one", {"w": ("int8", float(scales.max()), 0)}, encoded(w, "int8", float(scales.max()))),
        ("each", {"w": ("int8", scales.tolist(), [0] * 8, 0)}, encoded(w, "int8", scales)),
    ):
        encodings = written(tmp_path / f"{name}.encodings", **ends, **weight)
        wanted = convolved(real, kept.astype(np.float32))
        wanted = encoded(np.maximum(wanted, 0) if relu else wanted, *ends["y"])
        assert np.abs(wanted).max() > 4
        found = ran(call, path, encodings, x, tmp_path)
        np.testing.assert_allclose(found, wanted, atol=1.01 / 8, err_msg=name)


@pytest.mark.vendor
def test_the_axis_in_a_file_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The matrix is square, so its shape does not tell the axis."""
    rng, call = np.random.default_rng(0), Here(capsys)
    w = (rng.standard_normal((8, 8)) * 2.0 ** np.arange(-6, 2)).astype(np.float32)
    path = model(
        tmp_path / "product.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [4, 8], [4, 8], {"w": w}
    )
    x = on_steps((4, 8), 1 / 255)
    for axis in (0, 1, -1):
        scales = np.abs(w).max(0 if axis else 1) / 127
        ends = {"x": ("uint8", 1 / 255, 0), "y": ("uint16", 1 / 4096, 32768)}
        found = version_2(tmp_path / "product.encodings", w=("int8", scales.tolist(), [0] * 8, axis), **ends)
        wanted = encoded(x, "uint8", 1 / 255) @ encoded(w, "int8", scales, axis=axis % 2)
        np.testing.assert_allclose(ran(call, path, found, x, tmp_path), wanted, rtol=1e-3, atol=3e-3)
    version_2(tmp_path / "product.encodings", w=("int8", scales[:5].tolist(), [0] * 5, 1))
    refused = call("check", path, "--soc", "SM8650", "--encodings", tmp_path / "product.encodings")
    assert (
        refused.code == 2 and "w of shape [8, 8] has encodings for 5 channels of dimension 1" in refused.err
    )


@pytest.mark.vendor
@pytest.mark.parametrize("name", [*(f"aimet-net-{v}.encodings" for v in VERSIONS), "aimet-net-qdq.onnx"])
def test_aimets_exports_give_the_results_of_its_qdq_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    options = onnxruntime.SessionOptions()  # its kernels for integers saturate in between on some CPUs
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        FILES / "aimet-net-qdq.onnx", options, providers=["CPUExecutionProvider"]
    )
    for seed in range(3):
        x = on_steps((1, 3, 8, 8), 0.02412220263013653, 117, seed)
        (wanted,) = session.run(None, {"x": x})
        found = ran(Here(capsys), FILES / "aimet-net.onnx", FILES / name, x, tmp_path)
        np.testing.assert_allclose(found, wanted, atol=1.01 * 0.0018937)  # a step of y


@pytest.mark.parametrize("version", VERSIONS)
def test_all_versions_give_the_same_encodings(version: str) -> None:
    """Compares the names in both; the QDQ file has the encodings, too."""
    found, qdq = (read_encodings(str(FILES / f"aimet-net-{n}")) for n in (f"{version}.encodings", "qdq.onnx"))
    assert {"x", "r", "p", "y", "w", "g"} <= found.keys() <= qdq.keys()
    for name, encoding in found.items():
        assert encoding.bits == qdq[name].bits
        np.testing.assert_allclose(encoding.scales, qdq[name].scales, rtol=1e-6)
        np.testing.assert_array_equal(encoding.zeros, qdq[name].zeros)


@pytest.mark.vendor
def test_layers_without_encodings_stay_in_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The encodings of AIMET's file without those after the Relu: the Gemm is not quantized."""
    document = json.loads((FILES / "aimet-net-2.0.0.encodings").read_text())
    document["encodings"] = [e for e in document["encodings"] if e["name"] in "xrw"]
    (tmp_path / "less.encodings").write_text(json.dumps(document))
    x = on_steps((1, 3, 8, 8), 0.02412220263013653, 117)
    held = {w.name: numpy_helper.to_array(w) for w in onnx.load(FILES / "aimet-net.onnx").graph.initializer}
    said = {e["name"]: e for e in document["encodings"]}
    w = encoded(held["w"], "int8", said["w"]["y_scale"]).astype(np.float32)
    real = encoded(x, "uint8", said["x"]["y_scale"], said["x"]["y_zero_point"]).astype(np.float32)
    r = encoded(np.maximum(convolved(real, w) + held["cb"][:, None, None], 0), "uint8", said["r"]["y_scale"])
    wanted = r.mean((2, 3)) @ held["g"] + held["gb"]
    found = ran(Here(capsys), FILES / "aimet-net.onnx", tmp_path / "less.encodings", x, tmp_path)
    np.testing.assert_allclose(found, wanted, atol=6e-4)


def rows(call: Here, path: Path, encodings: Path) -> list[tuple[str, str, str]]:
    done = call("check", path, "--soc", "SM8650", "--encodings", encodings, "--json")
    assert done.code == 0, done.err
    return [(row["target"], row["module"], row["line"]) for row in done.document["rows"]]


def test_rows_have_the_names_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call, name = Here(capsys), "aimet-net-2.0.0.encodings"
    assert rows(call, FILES / "aimet-net.onnx", FILES / name) == [
        ("qnn.Quantize.default", "x/quantized", f"{name}: QuantizeLinear"),
        ("aten.conv2d.default", "conv", "aimet-net.onnx:1: Conv"),
        ("aten.relu.default", "relu", "aimet-net.onnx:2: Relu"),
        ("aten.mean.dim", "pool", "aimet-net.onnx:3: GlobalAveragePool"),
        ("aten.reshape.default", "flat", "aimet-net.onnx:4: Flatten"),
        ("aten.linear.default", "gemm", "aimet-net.onnx:5: Gemm"),
        ("qnn.Dequantize.default", "y/dequantized", f"{name}: DequantizeLinear"),
    ]


def test_rows_of_a_longer_file_have_its_own_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file has more operators than encodings, in an order in which names could be confused."""
    names = ["x", *(f"t{i}" for i in range(1, 12)), "y"]
    kinds = ("Relu", "Sigmoid", "Tanh")
    nodes = [
        helper.make_node(kinds[i % 3], [a], [b], name=f"layer.{i}")
        for i, (a, b) in enumerate(pairwise(names))
    ]
    path = model(tmp_path / "long.onnx", nodes, [1, 8], [1, 8])
    encodings = version_2(
        tmp_path / "some.encodings", t3=("uint8", 0.01, 128), t7=("uint8", 0.01, 128), y=("uint8", 0.01, 128)
    )
    found = [r for r in rows(Here(capsys), path, encodings) if r[2].startswith("long.onnx")]
    assert found == [
        (f"aten.{n.op_type.lower()}.default", n.name, f"long.onnx:{i}: {n.op_type}")
        for i, n in enumerate(nodes, 1)
    ]


def test_another_model_of_the_context_has_no_encodings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--with: the other model's rows come from its own file, whose tensors the encodings do not name."""
    first = model(tmp_path / "first.onnx", [helper.make_node("Relu", ["x"], ["y"])], [1, 8], [1, 8])
    strange = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Acos", ["h"], ["y"], name="strange")]
    second = model(tmp_path / "second.onnx", strange, [1, 8], [1, 8])
    encodings = version_2(tmp_path / "x.encodings", x=("uint8", 1 / 64, 96))
    done = Here(capsys)(
        "compile",
        first,
        "--soc",
        "SM8650",
        "--encodings",
        encodings,
        "--with",
        second,
        "-o",
        tmp_path / "both.bin",
    )
    assert done.code == 1 and "at strange second.onnx:2: Acos" in done.out


def test_weights_may_come_from_constant_nodes(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((8, 3, 3, 3)).astype(np.float32)
    scales = np.abs(w).max((1, 2, 3)) / 127
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(w))
    encodings = version_2(
        tmp_path / "all.encodings",
        x=("uint8", 1 / 255, 0),
        w=("int8", scales.tolist(), [0] * 8, 0),
        y=("uint8", 0.1, 128),
    )
    made = []
    for nodes, weights in (([CONV], {"w": w}), ([constant, CONV], {})):
        path = model(tmp_path / "conv.onnx", nodes, [1, 3, 8, 8], [1, 8, 8, 8], weights)
        graph = graph_of(path, encodings)
        made.append([t.data for t in graph.tensors.values() if t.dtype == "sq8" and t.data is not None])
    assert len(made[0]) == 1
    np.testing.assert_array_equal(made[0], made[1])


def test_unknown_names_are_reported_with_the_nearest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call, path = Here(capsys), FILES / "aimet-net.onnx"
    encodings = version_2(
        tmp_path / "some.encodings",
        x=("uint8", 0.03, 120),
        gbb=("uint8", 0.01, 0),
        relu_out=("uint8", 0.01, 0),
    )
    with pytest.warns(UserWarning, match=r"2 of its 3 names .* 'gbb' \(nearest: 'gb'\), 'relu_out'$"):
        assert call("check", path, "--soc", "SM8650", "--encodings", encodings).code == 0
    none = version_2(tmp_path / "none.encodings", gbb=("uint8", 0.01, 0))
    refused = call("check", path, "--soc", "SM8650", "--encodings", none)
    assert (
        refused.code == 2 and "none of its 1 names" in refused.err and "'gbb' (nearest: 'gb')" in refused.err
    )


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"output_dtype": "int4", "y_scale": [[0.1]], "axis": 0, "block_size": 2}, "x: cannot be read: .* scales for blocks"),
        ({"output_dtype": "int4", "per_block_int_scale": [[1]], "per_channel_float_scale": [[0.1]], "axis": 0, "block_size": 2,
          "y_zero_point": 1}, "x: cannot be read: .*its y_zero_point is not the middle"),
        ({"output_dtype": "int4", "y_scale": {"x": [[1]], "x_scale": [0.1], "axis": 1}, "axis": 0}, "x: .*KeyError: 'block_size'"),
        ({"output_dtype": "int4", "y_scale": {"x": [[1]], "x_scale": [0.1], "x_zero_point": 1}, "axis": 0}, "its scales have zero points"),
        ({"output_dtype": "int4", "y_scale": {"x": [[[1]]], "x_scale": [0.1]}, "axis": 2}, "blocks are along dimension 2"),
        ({"output_dtype": "uint12", "y_scale": 0.1}, "x has 12 bits"),
        ({"output_dtype": "uint8"}, "x: cannot be read: KeyError: 'y_scale'"),
        ({"output_dtype": "uint8", "y_scale": 0}, "x: cannot be read: .*a scale is no number above 0"),
        ({"output_dtype": "uint8", "y_scale": 0.1, "y_zero_point": 1.5}, "x: cannot be read: .*no whole number"),
        ({"output_dtype": "int8", "y_scale": 0.1, "y_zero_point": 128}, "x: cannot be read: .*not among the stored"),
        ({"output_dtype": "float16"}, "there are no encodings in it"),
        ({"output_dtype": "int32", "y_scale": 0.1}, "there are no encodings in it"),
    ],
)  # fmt: skip
def test_malformed_version_2_encodings_are_rejected(
    tmp_path: Path, entry: dict[str, Any], message: str
) -> None:
    path = tmp_path / "bad.encodings"
    path.write_text(json.dumps({"version": "2.0.0", "encodings": [{"name": "x", **entry}]}))
    with pytest.raises(OpdbError, match=message):
        read_encodings(str(path))
