"""AIMET's LPBQ: encodings in which a block's scale is an integer times its channel's scale, as exported by AIMET 2.42.

``files`` has a model of Conv of 1 by 1, Relu, Conv of 3 by 3, GlobalAveragePool, Flatten, Gemm and MatMul, with int4 weights in
blocks of 16 input channels, its encodings in versions 1.0 and 2.0, and the results of AIMET's simulation.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import read_and_check
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.programs.load import load_program
from opdb.programs.onnx.encodings import read_encodings, with_encodings

from ...cli.compiling import Here

pytestmark = [pytest.mark.torch, pytest.mark.vendor]
FILES = Path(__file__).parent / "files"
MODEL = FILES / "aimet-blocks.onnx"
VERSIONS = ("1.0.0", "2.0.0")
HTP = Target("HTP", "SM8550")


def written(folder: Path, version: str) -> Path:
    """The file of a version; 2.1 has the scales of 2.0 in one field."""
    if version != "2.1.0":
        return FILES / f"aimet-blocks-{version}.encodings"
    document = json.loads((FILES / "aimet-blocks-2.0.0.encodings").read_text())
    for entry in document["encodings"]:
        if "per_block_int_scale" in entry:
            scales = np.array(entry.pop("per_channel_float_scale")).ravel().tolist()
            steps = entry.pop("per_block_int_scale")
            entry["y_scale"] = {"x": steps, "x_scale": scales, "axis": 1 - entry["axis"]}
    path = folder / "blocks-2.1.0.encodings"
    path.write_text(json.dumps(document | {"version": "2.1.0"}))
    return path


@pytest.mark.parametrize("version", [*VERSIONS, "2.1.0"])
def test_each_version_has_the_same_blocks(tmp_path: Path, version: str) -> None:
    found, other = (read_encodings(str(written(tmp_path, v))) for v in (version, "2.0.0"))
    entries = json.loads((FILES / "aimet-blocks-1.0.0.encodings").read_text())["param_encodings"]
    assert sorted(e["name"] for e in entries if e["enc_type"] == "LPBQ") == ["a", "b", "g", "m"]
    for entry in entries:
        if entry["enc_type"] != "LPBQ":
            continue
        own, name = found[entry["name"]], entry["name"]
        assert own.steps is not None and (own.bits, own.block, own.symmetric) == (4, 16, True)
        np.testing.assert_array_equal(own.steps.ravel(), entry["per_block_int_scale"])
        np.testing.assert_array_equal(own.scales, np.float32(entry["scale"]))
        np.testing.assert_array_equal(own.steps, other[name].steps)  # type: ignore[arg-type]


def graph_of(encodings: Path) -> QnnGraph:
    program, coverage = read_and_check(load_program(str(MODEL), None, str(encodings)), HTP)
    return build_graph(program, coverage.lowered)


@pytest.mark.parametrize("version", VERSIONS)
def test_convolution_blocks_use_qnns_encoding(version: str) -> None:
    """The result is like that of recipe 16a4w-block: QNN's blocks in a 1 by 1 filter, a bias in steps of the channel's scale."""
    graph = graph_of(FILES / f"aimet-blocks-{version}.encodings")
    entries = json.loads((FILES / "aimet-blocks-1.0.0.encodings").read_text())
    (entry,) = (e for e in entries["param_encodings"] if e["name"] == "a")
    convolution = next(op for op in graph.ops if op.op == "Conv2d")
    x, weight, bias = (graph.tensors[n or ""] for n in convolution.inputs)
    assert weight.quant is not None and weight.quant.encoding == "BLOCKWISE_EXPANSION"
    assert weight.quant.blocks is not None and weight.quant.axis == 3
    np.testing.assert_array_equal(weight.quant.blocks.scales, entry["per_block_int_scale"])
    np.testing.assert_allclose(weight.quant.scale, entry["scale"], rtol=1e-6)
    assert bias.dtype == "sq32" and bias.quant is not None and x.quant is not None
    np.testing.assert_allclose(bias.quant.scale, np.array(entry["scale"]) * x.quant.scale[0], rtol=1e-6)


def test_larger_filters_are_stored_exactly_in_8_bits() -> None:
    """QNN has blocks only for 1 by 1 filters; a 4-bit integer times its block's integer fits 8 bits."""
    encodings = read_encodings(str(FILES / "aimet-blocks-1.0.0.encodings"))
    model = onnx.load(str(MODEL))
    held = {w.name: onnx.numpy_helper.to_array(w) for w in model.graph.initializer}
    made = with_encodings(model, encodings, "x")
    stored = {w.name: onnx.numpy_helper.to_array(w) for w in made.graph.initializer}
    assert stored["b/stored"].dtype == np.int8
    own = encodings["b"]
    steps = np.asarray(own.steps).repeat(16, 1)[:, :, None, None]
    scales = own.scales[:, None, None, None] * steps
    whole = np.clip(np.rint(held["b"] / scales.astype(np.float64)), -8, 7)
    np.testing.assert_array_equal(stored["b/stored"], whole * steps)
    np.testing.assert_array_equal(stored["b/scale"], own.scales)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("soc", "least"), [("SM8550", 70), ("QCM6490", 45)])
def test_results_match_aimets_simulation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], version: str, soc: str, least: float
) -> None:
    """Checks the signal to noise in dB against AIMET's simulation."""
    call, kept = Here(capsys), np.load(FILES / "aimet-blocks.npz")
    np.savez(tmp_path / "x.npz", x=kept["x"])
    made = tmp_path / "blocks.bin"
    how = ("--soc", soc, "--encodings", written(tmp_path, version))
    assert call("compile", MODEL, *how, "-o", made).code == 0
    ran = call("run", made, "--inputs", tmp_path / "x.npz", "--real", "--outputs", tmp_path / "y.npz")
    assert ran.code == 0, ran.err
    (y,) = np.load(tmp_path / "y.npz").values()
    noise = ((y - kept["y"]) ** 2).sum()
    assert 10 * np.log10((kept["y"] ** 2).sum() / noise) > least


ONE = {"enc_type": "LPBQ", "dtype": "INT", "is_sym": True, "bw": 8, "compressed_bw": 4, "block_size": 16}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"scale": [0.1, 0.1], "offset": [-128, -128], "per_block_int_scale": [1, 2, 3]}, "3 integers of blocks for 2 channels"),
        ({"scale": [0.1], "offset": [-127], "per_block_int_scale": [1, 2]}, "its offset is not the middle"),
        ({"scale": [0.1], "offset": [-128], "per_block_int_scale": [1, 0]}, "no whole number above 0"),
        ({"scale": [0.1], "offset": [-128], "per_block_int_scale": [1, 1.5]}, "is no whole number"),
        ({"scale": [0.1], "offset": [-128]}, "KeyError: 'per_block_int_scale'"),
    ],
)  # fmt: skip
def test_malformed_block_encodings_are_rejected(tmp_path: Path, entry: dict[str, Any], message: str) -> None:
    path = tmp_path / "bad.encodings"
    document = {"activation_encodings": [], "param_encodings": [{"name": "a", **ONE, **entry}]}
    path.write_text(json.dumps(document))
    with pytest.raises(OpdbError, match=f"bad.encodings: a: cannot be read: .*{message}"):
        read_encodings(str(path))


def test_blocks_must_fit_the_weight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.encodings"
    entry = {"name": "a", **ONE, "scale": [0.1] * 32, "offset": [-128] * 32, "per_block_int_scale": [1] * 96}
    path.write_text(json.dumps({"activation_encodings": [], "param_encodings": [entry]}))
    refused = Here(capsys)("check", MODEL, "--soc", "SM8550", "--encodings", path)
    assert refused.code == 2 and "a of shape [32, 32, 1, 1] has 96 integers for blocks of 16" in refused.err
