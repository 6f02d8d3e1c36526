"""The example ops of OpdbCustom in QNN's CPU and HTP backends and in ONNX Runtime: the bytes of the C kernels called from Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opdb.codegen.packages import types
from opdb.core.graph import single
from opdb.core.op_config import OpConfig
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.execute.packages.package import PackageFolder
from opdb.judge.samples import kernel_types, sample_config
from opdb.measure.conformance import tolerance
from opdb.measure.conformance.data import inputs as data_of
from opdb.plugins.packages import ort_package
from opdb.runtime import native
from opdb.runtime.qnn import libraries
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.slow]
OPS = ("BandEnergy", "FakeQuantize", "Sharpen")
Build = Callable[[str], PackageFolder]


@pytest.fixture(scope="module")
def built(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> Build:
    made: dict[str, PackageFolder] = {}

    def build(backend: str) -> PackageFolder:
        if backend not in made:
            made[backend] = package.write(catalog, OPS, tmp_path_factory.mktemp(backend), backend=backend)
            package.build(made[backend])
        return made[backend]

    return build


def configs(catalog: Catalog) -> Iterator[OpConfig]:
    """Each sample in each type of its kernel."""
    for op in OPS:
        compiled = catalog.compiled(op)
        for sample in range(len(compiled.definition.samples)):
            for dtype in compiled.definition.kernel.dtypes:  # type: ignore[union-attr]
                yield sample_config(compiled, sample, kernel_types(compiled, dtype))


def test_kernels_match_pytorch(catalog: Catalog) -> None:
    oracle = pytest.importorskip("opdb.measure.conformance.executors.torch_oracle")
    for config in configs(catalog):
        inputs = data_of(config.op, config)
        found = tolerance.compare(
            config,
            oracle.compute(config, inputs),
            native.run(config, inputs),
            tolerance.bounds(catalog, config),
        )
        assert found.matches and found.ulp <= 0.5, (config, found)


PLACES = [("CPU", "2.47", None)] + [("HTP", "2.47", soc) for soc in ("SM8350", "SM8650", "SM8750")]
PLACES += [("HTP", "2.51", soc) for soc in ("SM8350", "SM8650", "SM8750")]


@pytest.mark.parametrize(("backend", "version", "soc"), PLACES)
@pytest.mark.usefixtures("libraries")
def test_qnn_gives_the_same_bytes(
    catalog: Catalog, built: Build, backend: str, version: str, soc: str | None
) -> None:
    found = [f for f in libraries.discover([]) if f.qnn_version().startswith(f"{version}.")]
    found = [f for f in found if backend in f.present]
    if not found:
        pytest.skip(f"QNN {version} is not installed: `opdb libraries install`")
    shown, ran = set(types(catalog.backends[backend])), set()
    with VendorWorker(
        backend, soc, libraries=found[0].folder, op_packages=[built(backend).library]
    ) as worker:
        for config in configs(catalog):
            if {t.dtype for t in (*config.inputs, *config.outputs)} - shown:
                continue
            inputs = data_of(config.op, config)
            graph = single(config, inputs)
            given = {n: inputs[int(n)] for n, t in graph.tensors.items() if t.type == "APP_WRITE"}
            said = worker.run(graph, given)
            assert said.verdict == "yes", (config, said.stage, said.code, said.log)
            for tensor, wanted in zip(graph.outputs, native.run(config, inputs), strict=True):
                made = np.ascontiguousarray(said.outputs[tensor.name]).view(np.uint8)
                assert np.array_equal(made, wanted.view(np.uint8)), (config, tensor.name)
            ran.add((config.op, config.inputs[0].dtype))
    assert len(ran) == (5 if backend == "CPU" else 11)


def test_a_broken_rule_is_named(catalog: Catalog, built: Build) -> None:
    """Lists and scalars forbidden by the rules, including a rule about a list of real numbers."""
    band, fake = (next(c for c in configs(catalog) if c.op == op) for op in ("BandEnergy", "FakeQuantize"))
    short = replace(band.params[1], value=(1.0, 0.5), shape=(2,))
    same = [replace(p, value=1.0) if p.name == "low" else p for p in fake.params]
    with VendorWorker("HTP", "SM8650", op_packages=[built("HTP").library]) as worker:
        for config, words in (
            (replace(band, params=(band.params[0], short)), "BandEnergy.C4: must be len(weights) == len(edges) - 1"),
            (replace(fake, params=tuple(same)), "FakeQuantize.C2: The levels lie between low and high"),
        ):  # fmt: skip
            said = worker.validate(config)
            assert said.verdict == "reject" and any(words.partition(":")[0] in line for line in said.log), (
                said.log
            )


def test_onnx_runtime_gives_the_same_bytes(catalog: Catalog, tmp_path: Path) -> None:
    onnx, ort = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    kinds = {"f32": onnx.TensorProto.FLOAT, "f16": onnx.TensorProto.FLOAT16}
    root, _ = ort_package.write(catalog, OPS, "examples", tmp_path, domain="com.opdb")
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(ort_package.build(root, "examples")))
    helper, ran = onnx.helper, set()
    for config in configs(catalog):
        if config.inputs[0].dtype not in kinds:
            continue
        kind, inputs = kinds[config.inputs[0].dtype], data_of(config.op, config)
        names = [t.name for t in config.outputs]
        attributes = {p.name: p.value if p.shape is None else list(p.value) for p in config.params}
        node = helper.make_node(config.op, ["x"], names, domain="com.opdb", **attributes)
        given = [helper.make_tensor_value_info("x", kind, config.inputs[0].shape)]
        graph = helper.make_graph(
            [node], "g", given, [helper.make_tensor_value_info(n, kind, None) for n in names]
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.opdb", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        assert [tuple(o.shape) for o in session.get_outputs()] == [t.shape for t in config.outputs]
        for made, wanted in zip(session.run(None, {"x": inputs[0]}), native.run(config, inputs), strict=True):
            assert np.array_equal(made.view(np.uint8), wanted.view(np.uint8)), config
        ran.add((config.op, config.inputs[0].dtype))
    assert len(ran) == 5
