"""One ONNX file on ONNX Runtime's CPU and, with an op package, through its QNN execution provider on the emulated HTP."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opdb.specs
from opdb.catalog.store import read_catalog
from opdb.cli import main
from opdb.core.errors import OpdbError
from opdb.execute.libraries import onnx_runtime
from opdb.execute.packages import package
from opdb.plugins.packages import ort_package
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

from .conftest import BLUR, BLUR_C, MIX, MIX_C

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
helper = onnx.helper
pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.slow]
FLOAT, UINT8, INT8, UINT32 = 1, 2, 3, 12
OPS = ["Bands", "Blur", "DequantizeAdd", "Mix"]
BANDS = """\
op: Bands
package: OpdbTest
summary: The weighted sum and the greatest value of each band of the last axis.
inputs:
  x: [S..., F]
params:
  edges: u32[]
  weights: f32[]
outputs:
  energy: [S..., len(edges) - 1]
  peak: [S..., len(edges) - 1]
constraints:
  C1: increasing(edges) and edges[-1] <= F
kernel: {function: opdb_bands, dtypes: [f32]}
"""
BANDS_C = """\
#include "kernel.h"

opdb_status opdb_bands(const opdb_tensor *x, opdb_ints edges, opdb_reals weights, const opdb_tensor *energy,
                       const opdb_tensor *peak) {
    const int64_t columns = x->dims[x->rank - 1], bands = edges.n - 1;
    for (int64_t i = 0; i < size_of(energy); i++) {
        const float *row = (const float *)x->data + i / bands * columns;
        float sum = 0, most = row[edges.v[i % bands]];
        for (int64_t c = edges.v[i % bands]; c < edges.v[i % bands + 1]; c++) {
            sum += row[c];
            most = row[c] > most ? row[c] : most;
        }
        ((float *)energy->data)[i] = sum * (float)weights.v[i % bands];
        ((float *)peak->data)[i] = most;
    }
    return OPDB_OK;
}
"""
#: Blur of real numbers, too: ONNX Runtime's CPU computes it between a dequantize and a quantize node.
BLUR_FLOAT_C = BLUR_C.replace(
    "    for (int64_t n",
    """\
    for (int64_t n = 0; x->dtype == OPDB_F32 && n < x->dims[0]; n++)
        for (int64_t i = 0; i < h * row; i++) {
            const float *in = (const float *)x->data + n * (h + 2) * row + i;
            ((float *)y->data)[n * h * row + i] = (in[0] + 2 * in[row] + in[2 * row]) / 4;
        }
    if (x->dtype == OPDB_F32)
        return OPDB_OK;
    for (int64_t n""",
    1,
)


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, own = tmp_path_factory.mktemp("specs"), Path(opdb.specs.__file__).parent
    (folder / "ops").mkdir()
    texts = {"Mix": MIX, "Bands": BANDS, "Blur": BLUR.replace("[uq8, sq8]", "[f32, uq8, sq8]")}
    texts["DequantizeAdd"] = (own / "ops" / "DequantizeAdd.yaml").read_text()
    for op, text in texts.items():
        (folder / "ops" / f"{op}.yaml").write_text(text)
    for name, text in {"mix": MIX_C, "bands": BANDS_C, "blur": BLUR_FLOAT_C}.items():
        (folder / f"{name}.c").write_text(text)
    shutil.copytree(own / "backends", folder / "backends")
    shutil.copy(own / "socs.yaml", folder)
    return folder


@pytest.fixture(scope="module")
def built(specs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The op package for HTP, and the custom ops for ONNX Runtime."""
    try:
        libraries.find("2.51")
    except OpdbError as missing:
        pytest.skip(str(missing))
    folder, catalog = tmp_path_factory.mktemp("built"), read_catalog(specs)
    kernels = [specs / f"{name}.c" for name in ("mix", "bands", "blur")]
    made = package.write(catalog, OPS, folder / "htp", package="OpdbTest", kernels=kernels, backend="HTP")
    root, _ = ort_package.write(catalog, OPS, "test", folder / "ort", domain="com.example", kernels=kernels)
    return package.build(made), ort_package.build(root, "test")


def write(
    path: Path,
    nodes: list[Any],
    inputs: dict[str, tuple[int, list[Any]]],
    outputs: dict[str, int],
    constants: dict[str, np.ndarray] | None = None,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(n, *t) for n, t in inputs.items()],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()],
        [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(path))
    return path


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, domain="com.example", **attributes)


def compared(model: Path, built: tuple[Path, Path], **options: Any) -> list[onnx_runtime.Output]:
    ops, values = onnx_runtime.ends(model)
    settings = onnx_runtime.on_qnn(ops, [built[0]], custom_ops=[built[1]], **options)
    return onnx_runtime.compare(model, onnx_runtime.on_cpu([built[1]]), settings, values)


def sum_model(path: Path, scale: float = 0.5) -> Path:
    add = node("DequantizeAdd", ["x", "bias"], ["y"], scale=scale)
    return write(path, [add], {"x": (INT8, [2, 3, 4]), "bias": (FLOAT, [4])}, {"y": FLOAT})


def test_the_command_runs_an_op_with_scalar_parameters(
    built: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = sum_model(tmp_path / "sum.onnx")
    np.savez(tmp_path / "in.npz", x=np.full((2, 3, 4), -7, np.int8), bias=np.ones(4, np.float32))
    arguments = [str(model), "--op-package", str(built[0]), "--custom-ops", str(built[1])]
    arguments += ["--inputs", str(tmp_path / "in.npz"), "--json"]
    monkeypatch.setattr(sys, "argv", ["opdb", "package", "onnx", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = json.loads(capsys.readouterr().out)
    assert ended.value.code in (0, None), said
    assert said["outputs"] == [
        {"name": "y", "shape": [2, 3, 4], "dtype": "float32", "equal": True, "difference": 0.0}
    ]
    assert said["settings"]["config"] == {"session.disable_cpu_ep_fallback": "1"}
    options = said["settings"]["provider_options"]
    assert options["op_packages"] == f"DequantizeAdd:{built[0]}:OpdbTestInterfaceProvider:CPU"
    assert (options["soc_model"], options["htp_arch"]) == ("57", "75")


def test_every_kind_of_parameter_is_passed(built: tuple[Path, Path], tmp_path: Path) -> None:
    """The provider has a single integer type, and lists without rows: the package converts them to the op's types."""
    given = {"list": [3, 4], "rows": [1, -2, 30, -4], "mode": 2, "flag": 1, "whole": -50}
    mix = node("Mix", ["x", "a", "b"], ["y"], **given)
    inputs = {n: (FLOAT, [2, 3]) for n in "xab"}
    (found,) = compared(write(tmp_path / "mix.onnx", [mix], inputs, {"y": FLOAT}), built)
    assert found.equal and found.shape == (2, 3)


@pytest.mark.parametrize("soc", ["SM8350", "SM8750"])
def test_lists_and_two_outputs_are_passed(built: tuple[Path, Path], tmp_path: Path, soc: str) -> None:
    bands = node("Bands", ["x"], ["energy", "peak"], edges=[0, 2, 5, 8], weights=[1.0, 0.5, 0.25])
    outputs = {"energy": FLOAT, "peak": FLOAT}
    model = write(tmp_path / "bands.onnx", [bands], {"x": (FLOAT, [2, 3, 8])}, outputs)
    found = compared(model, built, soc=soc)
    assert [(f.name, f.shape, f.equal) for f in found] == [
        ("energy", (2, 3, 3), True),
        ("peak", (2, 3, 3), True),
    ]


def test_each_op_needs_its_own_package(built: tuple[Path, Path], specs: Path, tmp_path: Path) -> None:
    """The provider registers a package once for each op, but QNN accepts it once."""
    add = node("DequantizeAdd", ["x", "bias"], ["sum"], scale=0.5)
    bands = node("Bands", ["sum"], ["energy", "peak"], edges=[0, 2, 4], weights=[1.0, 0.5])
    inputs = {"x": (INT8, [2, 3, 4]), "bias": (FLOAT, [4])}
    model = write(tmp_path / "two.onnx", [add, bands], inputs, {"energy": FLOAT, "peak": FLOAT})
    with pytest.raises(OpdbError, match=r"several ops of the model \(Bands, DequantizeAdd\)"):
        compared(model, built)
    made = []
    for op in ("Bands", "DequantizeAdd"):
        own = package.write(
            read_catalog(specs),
            [op],
            tmp_path / op,
            package=f"{op}Package",
            kernels=[specs / "bands.c"],
            backend="HTP",
        )
        made.append(package.build(own))
    ops, values = onnx_runtime.ends(model)
    settings = onnx_runtime.on_qnn(ops, made, custom_ops=[built[1]])
    found = onnx_runtime.compare(model, onnx_runtime.on_cpu([built[1]]), settings, values)
    assert [(f.name, f.equal) for f in found] == [("energy", True), ("peak", True)]


def test_a_quantized_op_with_overlapping_tiles_runs(built: tuple[Path, Path], tmp_path: Path) -> None:
    """ONNX writes a quantized op as a float op between Dequantize and Quantize: results are within a step."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["real"]),
        node("Blur", ["real"], ["blurred"]),
        helper.make_node("QuantizeLinear", ["blurred", "scale", "zero"], ["y"]),
    ]
    constants = {"scale": np.array(0.25, np.float32), "zero": np.array(3, np.uint8)}
    model = write(tmp_path / "blur.onnx", nodes, {"x": (UINT8, [1, 6, 5, 8])}, {"y": UINT8}, constants)
    (found,) = compared(model, built)
    assert found.difference <= 1 and found.shape == (1, 4, 5, 8)


def test_a_refusal_names_the_rule(built: tuple[Path, Path], tmp_path: Path) -> None:
    """ONNX Runtime only says that a node was left for the CPU."""
    model = sum_model(tmp_path / "sum.onnx", scale=-0.5)
    ops, values = onnx_runtime.ends(model)
    settings = onnx_runtime.on_qnn(ops, [built[0]], custom_ops=[built[1]])
    with pytest.raises(OpdbError, match="fallback to CPU EP has been explicitly disabled") as caught:
        onnx_runtime.run(model, settings, values)
    assert "DequantizeAdd.C2: " in str(caught.value) and "got scale = -0.5" in str(caught.value)


def test_an_omitted_input_crashes_the_provider(built: tuple[Path, Path], tmp_path: Path) -> None:
    given = {"list": [3, 4], "rows": [1, -2, 30, -4], "mode": 2, "flag": 1, "whole": -50}
    mix = node("Mix", ["x", "", "b"], ["y"], **given)
    model = write(tmp_path / "mix.onnx", [mix], {n: (FLOAT, [2, 3]) for n in "xb"}, {"y": FLOAT})
    ops, values = onnx_runtime.ends(model)
    (y,) = onnx_runtime.run(model, onnx_runtime.on_cpu([built[1]]), values).values()
    wanted = values["x"] + 4 * values["b"] + np.float32(0.5 - 50 + 1000 + 200 + 3 + 4 + 1 - 2 + 30 - 4)
    assert np.allclose(y, wanted)
    settings = onnx_runtime.on_qnn(ops, [built[0]], custom_ops=[built[1]])
    with pytest.raises(OpdbError, match=r"ended with -11 .*leaves out an input before a given one"):
        onnx_runtime.run(model, settings, values)


def test_constant_folding_by_name_can_be_disabled(catalog: Catalog, tmp_path: Path) -> None:
    """Its constant folding only looks at a node's name."""
    root, _ = ort_package.write(catalog, ["Shape"], "shape", tmp_path / "ort", domain="com.example")
    library = ort_package.build(root, "shape")
    model = write(
        tmp_path / "shape.onnx", [node("Shape", ["x"], ["y"])], {"x": (FLOAT, [2, 3])}, {"y": UINT32}
    )
    ops, values = onnx_runtime.ends(model)
    with pytest.raises(OpdbError, match=r"tensor\(int64\)"):
        onnx_runtime.run(model, onnx_runtime.on_cpu([library]), values)
    (y,) = onnx_runtime.run(model, onnx_runtime.on_cpu([library], ops), values).values()
    assert y.dtype == np.uint32 and y.tolist() == [2, 3]


def test_mistakes_are_reported(built: tuple[Path, Path], tmp_path: Path) -> None:
    open_ = write(
        tmp_path / "open.onnx",
        [node("DequantizeAdd", ["x", "b"], ["y"], scale=1.0)],
        {"x": (INT8, ["n", 4]), "b": (FLOAT, [4])},
        {"y": FLOAT},
    )
    with pytest.raises(OpdbError, match=r"open\.onnx: x: the dimension n is open"):
        onnx_runtime.ends(open_)
    with pytest.raises(OpdbError, match="there is no such file"):
        onnx_runtime.ends(tmp_path / "none.onnx")
    with pytest.raises(OpdbError, match="no node is an op of these packages, which have Bands"):
        onnx_runtime.on_qnn(["Relu"], [built[0]])
    with pytest.raises(OpdbError, match="QNN does not take this op package"):
        onnx_runtime.on_qnn(["Mix"], [built[1]])
    moved = tmp_path / "a:b" / "libQnnOpdbTest.so"
    moved.parent.mkdir()
    shutil.copy(built[0], moved)
    with pytest.raises(OpdbError, match="no way to write a path with ':' in it"):
        onnx_runtime.on_qnn(["Mix"], [moved])
    np.savez(tmp_path / "in.npz", z=np.ones(1))
    with pytest.raises(OpdbError, match=r"in\.npz: has z; the model wants x, bias"):
        onnx_runtime.given(tmp_path / "in.npz", onnx_runtime.ends(sum_model(tmp_path / "sum.onnx"))[1])
