"""Op packages in QNN's real HTP backend, which emulates a chip here: numbers, ranks, types, refusals, context binaries."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opdb.core import c_compiler
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.execute.packages.package import PackageFolder
from opdb.runtime.qnn import libraries
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.op_package import OpPackageError
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.slow, pytest.mark.usefixtures("libraries")]
SOCS = ("SM8350", "SM8650", "SM8750")
SCALE = 0.1
BIAS = np.array([-3.0, 0.5, 1e-3, 7.0], np.float32)


def alone(bias: np.ndarray = BIAS, shape: tuple[int, ...] = (5, 4)) -> QnnGraph:
    tensors = [
        GraphTensor("x", "i8", shape, "APP_WRITE"),
        GraphTensor("bias", "f32", bias.shape, "STATIC", bias),
        GraphTensor("y", "f32", shape, "APP_READ"),
    ]
    scale = ParamConfig("scale", "f32", SCALE)
    ops = [GraphOp("custom", "DequantizeAdd", ("x", "bias"), (scale,), ("y",), "OpdbCustom")]
    return QnnGraph("alone", {t.name: t for t in tensors}, ops)


def data(shape: tuple[int, ...] = (5, 4), seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def expected(x: np.ndarray) -> np.ndarray:
    total = x.astype(np.float64) * np.float64(np.float32(SCALE)) + BIAS.astype(np.float64)
    return total.astype(np.float32)


@pytest.mark.parametrize("soc", SOCS)
def test_a_package_op_is_exact(custom_htp: PackageFolder, soc: str) -> None:
    with Backend.open("HTP", soc) as backend:
        made = backend.register_op_package(custom_htp.library)
        assert (made.name, made.ops, made.provider) == ("OpdbCustom", ("DequantizeAdd",), custom_htp.provider)
        for shape in ((5, 4), (4,), (2, 3, 4), (2, 1, 3, 4), (2, 1, 2, 2, 4)):
            with backend.prepare(alone(shape=shape)) as graph:
                x = data(shape)
                assert np.array_equal(graph.execute({"x": x})["y"], expected(x)), shape


@pytest.mark.parametrize("soc", SOCS)
def test_a_package_op_runs_between_qnn_ops(custom_htp: PackageFolder, soc: str) -> None:
    """Transpose of int8, DequantizeAdd, Relu; a float Relu is computed in 16 bits on the newer chips."""
    tensors = [
        GraphTensor("x", "i8", (4, 5), "APP_WRITE"),
        GraphTensor("xt", "i8", (5, 4)),
        GraphTensor("bias", "f32", (4,), "STATIC", BIAS),
        GraphTensor("sum", "f32", (5, 4)),
        GraphTensor("y", "f32", (5, 4), "APP_READ"),
    ]
    perm, scale = ParamConfig("perm", "u32", (1, 0), (2,)), ParamConfig("scale", "f32", SCALE)
    ops = [
        GraphOp("turn", "Transpose", ("x",), (perm,), ("xt",)),
        GraphOp("custom", "DequantizeAdd", ("xt", "bias"), (scale,), ("sum",), "OpdbCustom"),
        GraphOp("relu", "Relu", ("sum",), (), ("y",)),
    ]
    with Backend.open("HTP", soc) as backend:
        backend.register_op_package(custom_htp.library)
        with backend.prepare(QnnGraph("three", {t.name: t for t in tensors}, ops)) as graph:
            x = data((4, 5))
            y = graph.execute({"x": x})["y"]
            assert np.allclose(y, np.maximum(expected(x.T), 0), rtol=2**-11, atol=0)


def test_a_refusal_names_the_rule(custom_htp: PackageFolder) -> None:
    reason = "DequantizeAdd.SHAPE_bias: dimension 0 of bias must be S[-1]; got bias.shape = [5], S = [5, 4]"
    wrong = alone(np.ones(5, np.float32))
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(custom_htp.library)
        said = backend.validate(wrong.op_config(wrong.ops[0]))
        assert said.code == 3110 and reason in said.reasons
        with pytest.raises(QnnError, match="3110") as caught:
            backend.prepare(wrong)
        assert any(reason in line for line in caught.value.log)


# -- every kind of argument


def mixed(
    inputs: tuple[str | None, ...],
    dtype: str = "f32",
    quant: Quant | None = None,
    shape: tuple[int, ...] = (2, 3),
    numbers: tuple[int, ...] = (3, 4),
) -> QnnGraph:
    tensors = {n: GraphTensor(n, dtype, shape, "APP_WRITE", None, quant) for n in inputs if n}
    tensors["y"] = GraphTensor("y", dtype, shape, "APP_READ", None, quant)
    params = (
        ParamConfig("list", "u32", numbers, (len(numbers),)),
        ParamConfig("rows", "i32", (1, -2, 30, -4), (2, 2)),
        ParamConfig("mode", "u32", 2),
        ParamConfig("flag", "bool8", True),
        ParamConfig("whole", "i32", -50),
    )
    return QnnGraph("mixed", tensors, [GraphOp("mix", "Mix", inputs, params, ("y",), "OpdbTest")])


SUM = 0.5 - 50 + 1000 + 200 + 7 + 25  # real, whole, flag, mode, list, rows


@pytest.mark.parametrize("inputs", [("x",), ("x", "a"), ("x", None, "b"), ("x", "a", "b")])
def test_parameters_and_omitted_inputs_are_passed(
    mix_htp: PackageFolder, inputs: tuple[str | None, ...]
) -> None:
    values = {n: np.arange(6, dtype=np.float32).reshape(2, 3) + i for i, n in enumerate("xab")}
    want = SUM + sum(values[n] * factor for n, factor in zip("xab", (1, 2, 4), strict=True) if n in inputs)
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        with backend.prepare(mixed(inputs)) as graph:
            assert np.array_equal(graph.execute({n: values[n] for n in inputs if n})["y"], want)


def test_quantized_tensors_keep_their_type(mix_htp: PackageFolder) -> None:
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        with backend.prepare(mixed(("x",), "uq8", Quant("SCALE_OFFSET", (0.5,), (-3,)))) as graph:
            assert np.array_equal(graph.execute({"x": x})["y"], x)


@pytest.mark.parametrize("dtype", ["i64", "u64", "f64", "uq32"])
def test_types_hidden_by_the_backend_are_refused(mix_htp: PackageFolder, dtype: str) -> None:
    graph = mixed(("x",), dtype, Quant("SCALE_OFFSET", (0.5,), (0,)) if "q" in dtype else None)
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        said = backend.validate(graph.op_config(graph.ops[0]))
        assert said.code == 3110 and any(
            f"shows op packages no tensors of type {dtype}" in r for r in said.reasons
        )


# -- details HTP hides from a package


def test_graphs_of_different_ranks_can_follow_each_other(mix_htp: PackageFolder) -> None:
    """HTP reports [2, 3] and [1, 1, 2, 3] identically; each graph is validated before it is prepared."""
    x = np.arange(6, dtype=np.float32)
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        for shape in ((2, 3), (1, 1, 2, 3), (1, 2, 3), (2, 3)):
            with backend.prepare(mixed(("x",), shape=shape)) as graph:
                y = graph.execute({"x": x.reshape(shape)})["y"]
                assert np.array_equal(y, (x + np.float32(SUM)).reshape(shape))


def test_two_ranks_in_one_graph_are_refused(mix_htp: PackageFolder) -> None:
    first, second = mixed(("x",)), mixed(("x",), shape=(1, 1, 2, 3))
    tensors = dict(first.tensors)
    tensors |= {n + "2": replace(t, name=n + "2") for n, t in second.tensors.items()}
    more = replace(second.ops[0], name="more", inputs=("x2",), outputs=("y2",))
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        with pytest.raises(QnnError, match="1002") as caught:
            backend.prepare(QnnGraph("both", tensors, [first.ops[0], more]))
        assert any("op configs of several ranks were validated" in line for line in caught.value.log)


def test_nodes_with_equal_shapes_keep_their_own_parameters(mix_htp: PackageFolder) -> None:
    """Two nodes have the same shapes and different parameters."""
    first, second = mixed(("x",)), mixed(("x",), numbers=(30, 40))
    tensors = dict(first.tensors) | {"y2": replace(second.tensors["y"], name="y2")}
    more = replace(second.ops[0], name="more", outputs=("y2",))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(mix_htp.library)
        with backend.prepare(QnnGraph("both", tensors, [first.ops[0], more])) as graph:
            made = graph.execute({"x": x})
    assert np.array_equal(made["y"], x + np.float32(SUM))
    assert np.array_equal(made["y2"], x + np.float32(SUM + 63))


# -- tiles


def blurred(dtype: str, shape: tuple[int, ...]) -> QnnGraph:
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,))
    made = (shape[0], shape[1] - 2, *shape[2:])
    tensors = {
        "x": GraphTensor("x", dtype, shape, "APP_WRITE", None, quant),
        "y": GraphTensor("y", dtype, made, "APP_READ", None, quant),
    }
    return QnnGraph("blurred", tensors, [GraphOp("blur", "Blur", ("x",), (), ("y",), "OpdbTest")])


@pytest.mark.parametrize(
    ("dtype", "shape"), [("uq8", (1, 600, 400, 60)), ("uq8", (3, 5, 7, 12)), ("sq8", (2, 503, 301, 64))]
)
def test_overlapping_tiles_give_right_results(
    blur_htp: PackageFolder, dtype: str, shape: tuple[int, ...]
) -> None:
    """14 and 19 MB do not fit in VTCM at once."""
    signed = dtype == "sq8"
    x = np.random.default_rng(0).integers(-128 if signed else 0, 128 if signed else 256, shape)
    total = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
    want = np.trunc(total / 4) if signed else (total + 2) // 4
    kind = np.int8 if signed else np.uint8
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(blur_htp.library)
        with backend.prepare(blurred(dtype, shape)) as graph:
            assert np.array_equal(graph.execute({"x": x.astype(kind)})["y"], want.astype(kind))


def test_tensors_larger_than_vtcm_need_a_tiling(untiled_htp: PackageFolder) -> None:
    with VendorWorker("HTP", "SM8650", op_packages=[untiled_htp.library]) as worker:
        said = worker.run(blurred("uq8", (1, 600, 400, 60)), {"x": np.zeros((1, 600, 400, 60), np.uint8)})
        assert (said.stage, said.code) == ("finalize", 1002)
        assert any("not sufficiently tiled to fit in TCM" in line for line in said.log)


# -- context binaries and registering

RELOAD = """
import json, sys
import numpy as np
from opdb.runtime.qnn.backend import Backend
library, path, register = sys.argv[1:]
with Backend.open("HTP", "SM8650") as backend:
    if register == "yes":
        backend.register_op_package(library)
    with backend.load_context(path) as context:
        x = np.arange(20, dtype=np.int8).reshape(5, 4)
        print(json.dumps(context.graph("alone").execute({"x": x})["y"].tolist()))
"""


def test_a_context_binary_loads_in_another_process(custom_htp: PackageFolder, tmp_path: Path) -> None:
    x = np.arange(20, dtype=np.int8).reshape(5, 4)
    path = tmp_path / "alone.bin"
    with Backend.open("HTP", "SM8650") as backend:
        backend.register_op_package(custom_htp.library)
        with backend.create_context() as context:
            context.add_graph(alone())
            context.save(path)

    def reloaded(register: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", RELOAD, str(custom_htp.library), str(path), register]
        return subprocess.run(command, capture_output=True, text=True)

    done = reloaded("yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected(x).tolist()
    without = reloaded("no")
    assert without.returncode != 0 and "DequantizeAdd" in without.stderr


def test_the_provider_names_no_target(custom_htp: PackageFolder) -> None:
    with Backend.open("HTP", "SM8650") as backend:
        with pytest.raises(OpPackageError, match=r"4003 .*no such target"):
            backend.register_op_package(custom_htp.library, target="HTP")
        assert backend.register_op_package(custom_htp.library).target is None


def test_one_library_works_with_other_qnn_versions(custom_htp: PackageFolder) -> None:
    """Uses the same file in other versions of QNN's libraries, if installed."""
    others = [found for found in libraries.discover() if found.version != libraries.installed().version]
    if not others:
        pytest.skip("no other version of QNN's libraries is installed: `opdb libraries install 2.7.0`")
    x = data()
    for found in others:
        with VendorWorker(
            "HTP", "SM8650", libraries=found.folder, op_packages=[custom_htp.library]
        ) as worker:
            said = worker.run(alone(), {"x": x})
            assert said.verdict == "yes" and np.array_equal(said.outputs["y"], expected(x)), found


def test_builds_are_reproducible(catalog: Catalog, tmp_path: Path) -> None:
    libraries_ = [
        package.build(package.write(catalog, ["DequantizeAdd"], tmp_path / name, backend="HTP"))
        for name in ("a", "b")
    ]
    assert libraries_[0].read_bytes() == libraries_[1].read_bytes()


def test_make_builds_the_same_library(custom_htp: PackageFolder, tmp_path: Path, catalog: Catalog) -> None:
    made = package.write(catalog, ["DequantizeAdd"], tmp_path, backend="HTP")
    c_compiler.make(tmp_path, "the op package")
    assert made.library.read_bytes() == custom_htp.library.read_bytes()


def test_gpu_packages_are_refused(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(OpdbError, match="opdb can neither build nor run that here"):
        package.write(catalog, ["DequantizeAdd"], tmp_path, backend="GPU")
