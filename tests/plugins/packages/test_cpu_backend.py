"""Op packages in QNN's real CPU backend: numbers, refusals, context binaries."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig, Quant
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.packages import package
from opdb.execute.packages.package import PackageFolder
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.graph import Graph, Interface
from opdb.runtime.qnn.op_package import OpPackageError, default_provider
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.slow, pytest.mark.usefixtures("libraries")]
SCALE = 0.1
BIAS = np.array([-3.0, 0.5, 1e-3, 7.0], np.float32)
#: The types that the backend of 2.47 does not show to packages.
HIDDEN = ("i16", "i64", "u16", "u64", "f16", "f64", "sq8", "sq16", "sq32", "uq16", "uq32")


def three_ops(bias: np.ndarray = BIAS, dtype: str = "i8", op: str = "DequantizeAdd") -> QnnGraph:
    """Transpose of int8, DequantizeAdd, Relu."""
    n = len(bias)
    tensors = [
        GraphTensor("x", dtype, (n, 5), "APP_WRITE"),
        GraphTensor("xt", dtype, (5, n)),
        GraphTensor("bias", "f32", (n,), "STATIC", bias),
        GraphTensor("sum", "f32", (5, 4)),
        GraphTensor("y", "f32", (5, 4), "APP_READ"),
    ]
    perm, scale = ParamConfig("perm", "u32", (1, 0), (2,)), ParamConfig("scale", "f32", SCALE)
    ops = [
        GraphOp("turn", "Transpose", ("x",), (perm,), ("xt",)),
        GraphOp("custom", op, ("xt", "bias"), (scale,), ("sum",), "OpdbCustom"),
        GraphOp("relu", "Relu", ("sum",), (), ("y",)),
    ]
    return QnnGraph("three", {t.name: t for t in tensors}, ops)


def data(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, (4, 5)).astype(np.int8)


def expected(x: np.ndarray) -> np.ndarray:
    """The sum in float64, rounded to float32 once."""
    total = x.T.astype(np.float64) * np.float64(np.float32(SCALE)) + BIAS.astype(np.float64)
    return np.maximum(total.astype(np.float32), 0)


def interface(graph: Graph) -> Interface:
    def ends(kind: str) -> tuple:
        return tuple(t for t in graph.tensors.values() if t.config.type == kind)

    return Interface(ends("APP_WRITE"), ends("APP_READ"))


def test_a_package_op_runs_between_native_ops_exactly(custom: PackageFolder) -> None:
    with Backend.open("CPU") as backend:
        made = backend.register_op_package(custom.library)
        assert (made.name, made.ops, made.provider) == ("OpdbCustom", ("DequantizeAdd",), custom.provider)
        with backend.prepare(three_ops()) as graph:
            for seed in range(5):
                x = data(seed)
                y = graph.execute({"x": x})["y"]
                assert np.array_equal(y, expected(x))
                assert (y > 0).any() and (y == 0).any()


def test_results_match_pytorch(custom: PackageFolder) -> None:
    torch = pytest.importorskip("torch")
    x = data()
    want = torch.relu(
        torch.from_numpy(x.T.astype(np.float64)) * float(np.float32(SCALE)) + torch.from_numpy(BIAS)
    )
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        with backend.prepare(three_ops()) as graph:
            assert np.array_equal(graph.execute({"x": x})["y"], want.float().numpy())


def test_a_refusal_names_the_rule(custom: PackageFolder) -> None:
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        wrong = three_ops(bias=np.ones(5, np.float32))
        wrong.tensors["x"] = replace(wrong.tensors["x"], shape=(4, 5))
        wrong.tensors["xt"] = replace(wrong.tensors["xt"], shape=(5, 4))
        reason = (
            "DequantizeAdd.SHAPE_bias: dimension 0 of bias must be S[-1]; got bias.shape = [5], S = [5, 4]"
        )
        said = backend.validate(wrong.op_config(wrong.ops[1]))
        assert (said.code, said.reasons) == (3110, (reason,))
        with pytest.raises(QnnError) as caught:
            backend.prepare(wrong)
        assert caught.value.code == 3110 and f"error: {reason}" in caught.value.log
        unknown = three_ops(op="Dequantise")
        said = backend.validate(unknown.op_config(unknown.ops[1]))
        assert (said.code, said.reasons) == (3110, ("Dequantise: the op package OpdbCustom has no such op",))


def test_each_backend_gets_its_own_reasons(custom: PackageFolder) -> None:
    """The package has one log callback, whichever backend calls it."""
    graph = three_ops(bias=np.ones(3, np.float32))
    with Backend.open("CPU") as first, Backend.open("CPU", log_level="error") as second:
        for backend in (first, second):
            backend.register_op_package(custom.library)
        for backend in (first, second, first):
            (reason,) = backend.validate(graph.op_config(graph.ops[1])).reasons
            assert reason.startswith("DequantizeAdd.SHAPE_y: ")


def test_threads_can_run_separate_graphs(custom: PackageFolder) -> None:
    def work(seed: int) -> bool:
        with Backend.open("CPU") as backend:
            backend.register_op_package(custom.library)
            with backend.prepare(three_ops()) as graph:
                x = data(seed)
                return all(np.array_equal(graph.execute({"x": x})["y"], expected(x)) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_graphs_can_be_prepared_repeatedly(custom: PackageFolder) -> None:
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        for seed in range(20):
            with backend.prepare(three_ops()) as graph:
                assert np.array_equal(graph.execute({"x": data(seed)})["y"], expected(data(seed)))


# -- every kind of argument


def mixed(inputs: tuple[str | None, ...], dtype: str = "f32", quant: Quant | None = None) -> QnnGraph:
    used = [n for n in inputs if n]
    tensors = {n: GraphTensor(n, dtype, (2, 3), "APP_WRITE", None, quant) for n in used}
    tensors["y"] = GraphTensor("y", dtype, (2, 3), "APP_READ", None, quant)
    params = (
        ParamConfig("list", "u32", (3, 4), (2,)),
        ParamConfig("rows", "i32", (1, -2, 30, -4), (2, 2)),
        ParamConfig("mode", "u32", 2),
        ParamConfig("flag", "bool8", True),
        ParamConfig("whole", "i32", -50),
    )
    return QnnGraph("mixed", tensors, [GraphOp("mix", "Mix", inputs, params, ("y",), "OpdbTest")])


SUM = 0.5 - 50 + 1000 + 200 + 7 + 25  # real, whole, flag, mode, list, rows


@pytest.mark.parametrize("inputs", [("x",), ("x", "a"), ("x", None, "b"), ("x", "a", "b")])
def test_parameters_and_omitted_inputs_are_passed(mix: PackageFolder, inputs: tuple[str | None, ...]) -> None:
    values = {n: np.arange(6, dtype=np.float32).reshape(2, 3) + i for i, n in enumerate("xab")}
    want = SUM + sum(values[n] * factor for n, factor in zip("xab", (1, 2, 4), strict=True) if n in inputs)
    with Backend.open("CPU") as backend:
        backend.register_op_package(mix.library)
        with backend.prepare(mixed(inputs)) as graph:
            assert np.array_equal(graph.execute({n: values[n] for n in inputs if n})["y"], want)


def test_quantized_tensors_keep_their_type(mix: PackageFolder) -> None:
    """The backend reports uint8 with an encoding; the kernel is selected by uq8."""
    x = np.arange(6, dtype=np.uint8).reshape(2, 3)
    with Backend.open("CPU") as backend:
        backend.register_op_package(mix.library)
        with backend.prepare(mixed(("x",), "uq8", Quant("SCALE_OFFSET", (0.5,), (-3,)))) as graph:
            assert np.array_equal(graph.execute({"x": x})["y"], x)


@pytest.mark.parametrize("dtype", HIDDEN)
def test_types_hidden_by_the_backend_are_refused(mix: PackageFolder, dtype: str) -> None:
    """Mix has no type rows, so its rules allow them."""
    quant = Quant("SCALE_OFFSET", (0.5,), (0,)) if "q" in dtype else None
    graph = mixed(("x",), dtype, quant)
    with Backend.open("CPU") as backend:
        backend.register_op_package(mix.library)
        said = backend.validate(graph.op_config(graph.ops[0]))
        assert said.code == 3110 and f"shows op packages no tensors of type {dtype}" in said.reasons[0]
        with pytest.raises(QnnError, match=f"3110 .*no tensors of type {dtype}"):
            backend.prepare(graph)


def test_hidden_types_would_give_garbage(broken: Path) -> None:
    """Their tensors are missing in the node and its counts are unset: a crash, too little memory, or too few inputs."""
    with VendorWorker("CPU", op_packages=[broken]) as worker:
        said = worker.run(mixed(("x",), "i16"), {"x": np.zeros((2, 3), np.int16)})
        assert said.verdict in ("crashed", "no") and said.stage in ("finalize", "execute"), said
        fine = worker.run(mixed(("x",)), {"x": np.zeros((2, 3), np.float32)})
        assert fine.verdict == "yes" and np.array_equal(fine.outputs["y"], np.full((2, 3), SUM, np.float32))


def test_a_type_without_a_kernel_is_refused(mix: PackageFolder) -> None:
    graph = mixed(("x",), "i32")
    with Backend.open("CPU") as backend:
        backend.register_op_package(mix.library)
        assert backend.validate(graph.op_config(graph.ops[0])).reasons == (
            "Mix: there is no kernel for a first input of type i32",
        )


# -- registering


def refusal(
    backend: Backend, library: Path | str, provider: str | None = None, target: str | None = None
) -> OpPackageError:
    with pytest.raises(OpPackageError) as caught:
        backend.register_op_package(library, provider, target)
    assert str(caught.value).endswith(f"; {caught.value.cure}")
    return caught.value


MEMBERS = ("init", "terminate", "getInfo", "validateOpConfig", "createOpImpl", "freeOpImpl", "logInitialize",
           "logSetLevel", "logTerminate")  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "code", "words"),
    [
        ("NotThere", 4006, "exports no function NotThere"),
        ("Major2", 4008, "interface version 1.x"),
        *((f"Without_{m}", 4008, "all of its nine functions") for m in MEMBERS),
        ("NoInit", 3100, "provider or init function"),
        ("Answers7", 7, "provider or init function"),
        ("NoInfo", 4007, "getInfo function failed"),
    ],
)
def test_faulty_providers_are_refused(broken: Path, provider: str, code: int, words: str) -> None:
    with Backend.open("CPU") as backend:
        error = refusal(backend, broken, provider)
        assert error.code == code and words in error.cure
        if provider.startswith("Without_"):
            assert f"Missing interface method: {provider[8:]}" in str(error)
        assert backend.op_packages == {}


def test_other_minor_versions_are_accepted(broken: Path) -> None:
    with Backend.open("CPU") as backend:
        assert backend.register_op_package(broken, "Minor9").name == "OpdbTest"


def test_faulty_libraries_are_refused(custom: PackageFolder, tmp_path: Path) -> None:
    with Backend.open("CPU") as backend:
        missing = refusal(backend, tmp_path / "libQnnNone.so")
        assert missing.code == 4005 and "no such file" in missing.cure
        (tmp_path / "text.so").write_text("no library")
        wrong = refusal(backend, tmp_path / "text.so")
        assert wrong.code == 4005 and "no library for this machine" in wrong.cure
        backend.register_op_package(custom.library)
        again = refusal(backend, custom.library)
        assert (
            again.code == 4007 and "registered with this backend already (by opdb: OpdbCustom)" in again.cure
        )
        assert list(backend.op_packages) == ["OpdbCustom"]


def test_other_backends_refuse_the_package(custom: PackageFolder) -> None:
    with Backend.open("IR") as backend:
        assert refusal(backend, custom.library).code == 1000
    # in a child: this process would go on to look for the HTP package of that name in this file
    with (
        VendorWorker("HTP", "SM8650", op_packages=[custom.library]) as worker,
        pytest.raises(QnnError, match=r"4005 .*op_pkg_init"),
    ):
        worker.info()


def test_the_saver_records_the_registration(custom: PackageFolder, tmp_path: Path) -> None:
    """Runs in a separate process: the Saver records once per process."""
    code = f"""
from opdb.runtime.qnn.saver import calls, recording
with recording({str(tmp_path / "text")!r}, "CPU") as backend:
    assert backend.register_op_package({str(custom.library)!r}).name == "OpdbCustom"
made = calls(open({str(tmp_path / "text" / "saver_output.c")!r}).read())
print([c.arguments for c in made if c.function == "backendRegisterOpPackage"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert str(custom.library) in done.stdout and custom.provider in done.stdout


def test_a_node_of_an_unregistered_package_is_refused(custom: PackageFolder) -> None:
    graph = three_ops()
    with Backend.open("CPU") as backend:
        assert backend.validate(graph.op_config(graph.ops[1])).code == 4005
        with pytest.raises(
            OpPackageError, match=r"4005 .*OpdbCustom is not registered with this backend; register"
        ):
            backend.prepare(graph)


def test_the_default_provider_follows_from_the_file_name() -> None:
    assert default_provider(Path("/a/libQnnOpdbCustom.so")) == "OpdbCustomInterfaceProvider"
    assert default_provider(Path("Mine.so")) == "MineInterfaceProvider"


# -- context binaries


def test_a_context_binary_loads_in_the_same_process(custom: PackageFolder) -> None:
    x = data()
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        with backend.create_context() as context:
            graph = context.add_graph(three_ops())
            binary, ends = context.binary(), interface(graph)
        with Context.load(backend, binary, {"three": ends}) as loaded:
            assert np.array_equal(loaded.graph("three").execute({"x": x})["y"], expected(x))


@pytest.mark.parametrize("level", ["debug", "error"])
def test_loading_without_the_package_names_it(custom: PackageFolder, level: str) -> None:
    """QNN itself returns 0, and fails at execution."""
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        with backend.create_context() as context:
            graph = context.add_graph(three_ops())
            binary, ends = context.binary(), interface(graph)
    with Backend.open("CPU", log_level=level) as backend:
        with pytest.raises(
            OpdbError, match=r"its op DequantizeAdd: the op package OpdbCustom is not registered"
        ):
            Context.load(backend, binary, {"three": ends})
        backend.register_op_package(custom.library)
        with Context.load(backend, binary, {"three": ends}) as loaded:
            assert np.array_equal(loaded.graph("three").execute({"x": data()})["y"], expected(data()))


def test_a_context_binary_loads_in_a_fresh_process(custom: PackageFolder, tmp_path: Path) -> None:
    with Backend.open("CPU") as backend:
        backend.register_op_package(custom.library)
        with backend.create_context() as context:
            graph = context.add_graph(three_ops())
            (tmp_path / "context").write_bytes(context.binary())
            ids = {t.config.name: t.id for t in graph.tensors.values()}
    code = """
import json, sys
from pathlib import Path
import numpy as np
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.graph import Interface, Tensor

folder, library, ids, x = sys.argv[1], sys.argv[2], *map(json.loads, sys.argv[3:])
ends = Interface((Tensor(GraphTensor("x", "i8", (4, 5), "APP_WRITE"), ids["x"]),),
                 (Tensor(GraphTensor("y", "f32", (5, 4), "APP_READ"), ids["y"]),))
binary = Path(folder, "context").read_bytes()
with Backend.open("CPU") as backend:
    try:
        Context.load(backend, binary, {"three": ends})
    except OpdbError as error:
        print(error)
    backend.register_op_package(library)
    with Context.load(backend, binary, {"three": ends}) as context:
        print(json.dumps(context.graph("three").execute({"x": np.array(x, np.int8)})["y"].tolist()))
"""
    arguments = [str(tmp_path), str(custom.library), json.dumps(ids), json.dumps(data().tolist())]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    refused, values = done.stdout.splitlines()
    assert "the op package OpdbCustom is not registered" in refused
    assert np.array_equal(np.array(json.loads(values), np.float32), expected(data()))


def test_an_op_may_have_no_parameters(catalog: Catalog, tmp_path: Path) -> None:
    """The backend leaves the number of parameters of this kind of node undefined."""
    made = package.write(catalog, ["Relu"], tmp_path, package="OpdbPlain")
    package.build(made)
    names = ("x", "a", "b", "y")
    kinds = {"x": "APP_WRITE", "y": "APP_READ"}
    tensors = [GraphTensor(n, "f32", (7,), kinds.get(n, "NATIVE")) for n in names]
    ops = [
        GraphOp("first", "Relu", ("x",), (), ("a",), "OpdbPlain"),
        GraphOp("turn", "ElementWiseNeg", ("a",), (), ("b",)),
        GraphOp("second", "Relu", ("b",), (), ("y",), "OpdbPlain"),
    ]
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    for chosen, expected in ((ops, np.zeros(7)), ([replace(ops[0], outputs=("y",))], np.maximum(x, 0))):
        used = {n for o in chosen for n in (*o.inputs, *o.outputs)}
        graph = QnnGraph("plain", {t.name: t for t in tensors if t.name in used}, list(chosen))
        with Backend.open("CPU") as backend:
            backend.register_op_package(made.library)
            with backend.prepare(graph) as prepared:
                assert np.array_equal(prepared.execute({"x": x})["y"], expected)
