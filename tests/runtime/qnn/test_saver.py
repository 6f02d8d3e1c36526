"""Recordings of the Saver: the order and arguments of our calls, and a program that really runs."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.dtypes import BY_SHORT, DTYPES
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ConfigError, ParamConfig, Quant, TensorConfig
from opdb.execute.libraries.client import record
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.graph import GraphOptions
from opdb.runtime.qnn.libraries import Libraries
from opdb.runtime.qnn.native import lib
from opdb.runtime.qnn.saver import calls
from opdb.runtime.qnn.structs import SCALARS, array

from .saver_text import Program, RecordedGraph, RecordedTensor

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]
ROOT = Path(__file__).parents[3]
TYPES = {
    t: getattr(lib, f"QNN_TENSOR_TYPE_{t}") for t in ("APP_WRITE", "APP_READ", "NATIVE", "STATIC", "NULL")
}
UNDEFINED = 0x7FFFFFFF


def in_child(code: str, *args: Any) -> subprocess.CompletedProcess[str]:
    """Runs Python code with ``args`` in another process, since a process records only once."""
    command = [sys.executable, "-c", "import pickle, sys\nargs = pickle.load(sys.stdin.buffer)\n" + code]
    done = subprocess.run(command, input=pickle.dumps(args), capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def recorded(folder: Path, graphs: list[QnnGraph], backend: str, soc: str | None, **more: Any) -> Program:
    code = "from opdb.runtime.qnn.saver import record\nrecord(*args[0], **args[1])"
    done = in_child(code, (graphs, folder, backend, soc), more)
    assert done.returncode == 0, done.stderr
    program = Program(folder)
    assert program.unread == 0
    return program


def random_graph(rng: np.random.Generator, name: str) -> QnnGraph:
    """Random tensors, encodings and parameters: the Saver accepts everything."""
    graph = QnnGraph(name)
    kinds = [d for d in DTYPES if d.numpy]
    for i in range(rng.integers(2, 7)):
        dtype = kinds[rng.integers(len(kinds))]
        shape = tuple(int(d) for d in rng.integers(1, 5, rng.integers(1, 6)))
        kind = ("APP_WRITE", "APP_READ", "NATIVE", "STATIC")[rng.integers(4)]
        data = rng.integers(0, 2, shape).astype(dtype.numpy) if kind == "STATIC" else None
        quant = random_quant(rng, shape) if dtype.quantized else None
        graph.tensors[f"{name}_t{i}"] = GraphTensor(f"{name}_t{i}", dtype.short, shape, kind, data, quant)
    names = list(graph.tensors)
    for i in range(rng.integers(0, 4)):
        inputs = [
            names[rng.integers(len(names))] if rng.random() < 0.8 else None for _ in range(rng.integers(1, 4))
        ]
        outputs = [names[rng.integers(len(names))] for _ in range(rng.integers(1, 3))]
        params = tuple(random_param(rng, f"p{k}") for k in range(rng.integers(0, 4)))
        graph.ops.append(
            GraphOp(f"{name}.n {i}", f"Op{i}", tuple(inputs), params, tuple(outputs), "a.package")
        )
    return graph


def random_quant(rng: np.random.Generator, shape: tuple[int, ...]) -> Quant:
    axis = int(rng.integers(len(shape)))
    n = shape[axis]
    scales = tuple(float(s) for s in np.exp2(rng.uniform(-60, 20, n)).astype(np.float32))
    offsets = tuple(int(o) for o in rng.integers(-(2**31), 2**31, n))
    match rng.integers(4):
        case 0:
            return Quant("SCALE_OFFSET", scales[:1], offsets[:1])
        case 1:
            return Quant("AXIS_SCALE_OFFSET", scales, offsets, axis=axis)
        case 2:
            return Quant("BW_SCALE_OFFSET", scales[:1], offsets[:1], bits=4)
        case _:
            return Quant("BW_AXIS_SCALE_OFFSET", scales, offsets, axis=axis, bits=4)


def random_param(rng: np.random.Generator, name: str) -> ParamConfig:
    match rng.integers(5):
        case 0:
            return ParamConfig(name, "bool8", bool(rng.integers(2)))
        case 1:
            return ParamConfig(name, "f32", float(np.float32(rng.standard_normal())))
        case 2:
            return ParamConfig(name, "i32", int(rng.integers(-(2**31), 2**31)))
        case 3:
            values = tuple(int(v) for v in rng.integers(0, 2**32, 6))
            return ParamConfig(name, "u32", values, (2, 3))
        case _:
            return ParamConfig(name, "u8", int(rng.integers(256)))


def quant_of(quant: Quant | None) -> list[Any]:
    """The Saver's output for an encoding: definition, number, member of the union."""
    if quant is None:
        return [UNDEFINED, UNDEFINED, {"scaleOffsetEncoding": [0.0, 0]}]
    number = getattr(lib, f"QNN_QUANTIZATION_ENCODING_{quant.encoding}")
    pairs = [list(p) for p in zip(quant.scale, quant.offset, strict=True)]
    value: list[Any]
    match quant.encoding:
        case "SCALE_OFFSET":
            member, value = "scaleOffsetEncoding", pairs[0]
        case "AXIS_SCALE_OFFSET":
            member, value = "axisScaleOffsetEncoding", [quant.axis, len(pairs), pairs]
        case "BW_SCALE_OFFSET":
            member, value = "bwScaleOffsetEncoding", [quant.bits, *pairs[0]]
        case _:
            member = "bwAxisScaleOffsetEncoding"
            value = [quant.bits, quant.axis, len(pairs), list(quant.scale), list(quant.offset)]
    return [1, number, {member: value}]


def rounded(value: Any) -> Any:
    """Floats as float32, with the nine digits written by the Saver."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return np.float32(value) if isinstance(value, float) else value


def assert_tensor(found: RecordedTensor, wanted: GraphTensor | TensorConfig, name: str) -> None:
    assert (found.name, found.type) == (name, TYPES[wanted.type])
    assert found.dtype == BY_SHORT[wanted.dtype].code
    assert tuple(found.dims) == wanted.shape
    assert rounded(found.quant) == rounded(quant_of(wanted.quant))
    if wanted.type == "STATIC":
        assert found.data == array(wanted.data, wanted.dtype, wanted.shape, name).tobytes()
    else:
        assert found.data is None


def assert_graph(found: RecordedGraph, wanted: QnnGraph) -> None:
    """Checks that names, dimensions, types, encodings, data, nodes and parameters match the QnnGraph."""
    made = {t.name: (variable, t) for variable, t in found.tensors.items()}
    assert len(made) == len(found.tensors)
    assert list(made)[: len(wanted.tensors)] == list(wanted.tensors)
    for name, tensor in wanted.tensors.items():
        assert made[name][1].id == "0"
        assert_tensor(made[name][1], tensor, name)
    assert [n.name for n in found.nodes] == [op.name for op in wanted.ops]
    for node, op in zip(found.nodes, wanted.ops, strict=True):
        assert (node.package, node.op) == (op.package, op.op)
        sides = ((node.inputs, op.inputs), (node.outputs, op.outputs))
        for tensor, name in ((t, n) for got, names in sides for t, n in zip(got, names, strict=True)):
            variable = made[tensor.name][0]  # created before: the node refers to the id that it was given
            assert tensor.id == f"{variable}.v1.id"
            absent = TensorConfig("", "f32", (), "NULL")
            assert_tensor(tensor, absent if name is None else wanted.tensors[name], name or tensor.name)
        assert list(node.params) == [p.name for p in op.params]
        for param in op.params:
            assert_param(node.params[param.name], param, made)


def assert_param(found: Any, wanted: ParamConfig, made: dict[str, Any]) -> None:
    if wanted.shape is None:
        assert found[0] == BY_SHORT[wanted.dtype].code
        assert rounded(found[1]) == rounded({SCALARS[wanted.dtype]: wanted.value})
        return
    assert found.id == f"{made[found.name][0]}.v1.id"
    tensor = TensorConfig("", wanted.dtype, wanted.shape, "STATIC", list(wanted.value))
    assert_tensor(found, tensor, found.name)


def test_arguments_match_the_graphs(tmp_path: Path) -> None:
    rng = np.random.default_rng(20)
    graphs = [random_graph(rng, f"g{i}") for i in range(40)]
    assert sum(len(g.ops) for g in graphs) > 40
    program = recorded(tmp_path / "out", graphs, "CPU", None)
    assert [g.name for g in program.graphs.values()] == [g.name for g in graphs]
    for found, wanted in zip(program.graphs.values(), graphs, strict=True):
        assert_graph(found, wanted)


@pytest.mark.parametrize(("backend", "soc"), [("CPU", None), ("HTP", "SM8650")])
def test_calls_are_in_order(
    backend: str, soc: str | None, tmp_path: Path, guide_graph: QnnGraph, relu_graph: QnnGraph
) -> None:
    feed = {"guide": {"x": np.ones((200, 768), np.float32)}}
    options = GraphOptions(precision="fp16", optimization=3) if backend == "HTP" else GraphOptions()
    program = recorded(tmp_path, [guide_graph, relu_graph], backend, soc, options=options, inputs=feed)
    device = ["deviceCreate"] * (backend == "HTP")
    guide = [
        "graphCreate",
        *["tensorCreateGraphTensor"] * 7,
        "tensorCreateGraphTensor",
        "graphAddNode",
        "graphAddNode",
    ]
    relu = ["graphCreate", *["tensorCreateGraphTensor"] * 2, "graphAddNode", "graphFinalize"]
    assert [name for name, _ in program.calls] == [
        "backendCreate", *device, "contextCreate", *guide, "graphFinalize", "graphExecute", *relu,
        "contextFree", *["deviceFree"] * len(device), "backendFree",
    ]  # fmt: skip
    arguments = dict(program.calls)
    assert arguments["contextCreate"][:2] == ["backend_0", "device_0" if device else "None"]
    found = next(iter(program.graphs.values()))
    assert_graph(found, guide_graph)
    ((inputs, outputs),) = found.executed
    assert [(t.name, t.dims, t.data) for t in inputs] == [("x", [200, 768], feed["guide"]["x"].tobytes())]
    assert [(t.name, t.dims) for t in outputs] == [("y", [200, 100])]
    source = (tmp_path / "saver_output.c").read_text()
    assert [(c.function, len(c.arguments)) for c in calls(source)] == [(n, len(a)) for n, a in program.calls]
    assert sorted(os.listdir(tmp_path)) == ["params.bin", "saver_output.c"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_program_runs_on_the_real_library(
    tmp_path: Path, guide_graph: QnnGraph, libraries: Libraries
) -> None:
    """Compiled with our declarations and linked with libQnnCpu, it gives opdb's results."""
    x = np.random.default_rng(3).normal(size=(200, 768)).astype(np.float32)
    program = recorded(tmp_path, [guide_graph], "CPU", None, inputs={"guide": {"x": x}})
    abi = (ROOT / "generated/c/include/opdb/qnn_abi.h").read_text()
    head, rest = abi.split("/* Declarations begin. */")
    # Qualcomm's headers have unions without a name, ours name them u
    body = re.sub(r"\} u;", "};", rest.split("/* Declarations end. */")[0])
    provider = "Qnn_ErrorHandle_t QnnInterface_getProviders(const QnnInterface_t ***, uint32_t *);\n"
    guard = "\n#endif\n" * head.count("#ifndef")
    (tmp_path / "QnnInterface.h").write_text(head + body + provider + guard)
    (variable,) = (v for v in program.variables if "outputTensor" in v and v.endswith("_data"))
    source = tmp_path / "saver_output.c"
    dump = f'\n   FILE *out = fopen("y.bin", "wb"); fwrite({variable}, sizeof {variable}, 1, out); fclose(out);\n'
    text, n = re.subn(
        r"(VALIDATE\(error, interface\.graphExecute\(.*\)\);)", rf"\1{dump}", source.read_text()
    )
    assert n == 1
    source.write_text(text)
    macros = {"QNN_INTERFACE_VER_TYPE": "QnnInterface_Functions_t", "QNN_INTERFACE_VER_NAME": "api"}
    macros["QNN_COMMON_ERROR_NOT_SUPPORTED"] = "1000"
    library = libraries.path("CPU")
    command = ["cc", "-std=gnu11", "-w", "-I.", source.name, "-o", "program", str(library)]
    command += [*(f"-D{k}={v}" for k, v in macros.items()), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([*command, "-Wl,--unresolved-symbols=ignore-in-shared-libs"], cwd=tmp_path, check=True)
    done = subprocess.run(["./program"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "ERROR" in done.stdout) == (0, False), done.stdout
    y = np.frombuffer((tmp_path / "y.bin").read_bytes(), np.float32).reshape(200, 100)
    with Backend.open("CPU") as backend, backend.prepare(guide_graph) as prepared:
        assert np.array_equal(y, prepared.execute({"x": x})["y"])


def test_a_process_records_once(tmp_path: Path, relu_graph: QnnGraph) -> None:
    code = """
from opdb.core.errors import OpdbError
from opdb.runtime.qnn.saver import record
record([args[0]], args[1] / "first", "CPU")
try:
    record([args[0]], args[1] / "second", "CPU")
except OpdbError as error:
    print(error)
"""
    done = in_child(code, relu_graph, tmp_path)
    assert "libQnnSaver.so records once per process" in done.stdout
    assert os.listdir(tmp_path) == ["first"]


def test_a_failure_while_recording_leaves_no_files(tmp_path: Path) -> None:
    code = """
from opdb.runtime.qnn.saver import recording
with recording(args[0] / "out", "HTP", "SM8650") as backend:
    backend.create_context().create_graph("g")
    raise KeyError("mine")
"""
    done = in_child(code, tmp_path)
    assert "KeyError: 'mine'" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_child_records_for_the_parent(tmp_path: Path, relu_graph: QnnGraph) -> None:
    for name in ("one", "two"):
        result = record([relu_graph], tmp_path / name, "HTP", "SM8550")
        assert (result.stage, result.verdict) == ("done", "yes")
        (graph,) = Program(tmp_path / name).graphs.values()
        assert_graph(graph, relu_graph)


def test_invalid_recordings_are_rejected(tmp_path: Path, relu_graph: QnnGraph) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OpdbError, match="file/folder: cannot write"):
        record([relu_graph], tmp_path / "file" / "folder", "CPU")
    with pytest.raises(OpdbError, match="cannot write: File exists"):
        record([relu_graph], tmp_path / "file", "CPU")
    with pytest.raises(OpdbError, match="'GPU' is not a backend whose calls are recorded"):
        record([relu_graph], tmp_path, "GPU")
    with pytest.raises(OpdbError, match="the HTP backend needs a SoC"):
        record([relu_graph], tmp_path)
    with pytest.raises(OpdbError, match="the CPU backend has no precision to choose"):
        record([relu_graph], tmp_path, "CPU", options=GraphOptions(precision="fp16"))
    with pytest.raises(OpdbError, match="writes quotes and backslashes"):
        record([QnnGraph('a "b"')], tmp_path, "CPU")
    with pytest.raises(OpdbError, match="gives the graphs 'a b' and 'a_b' one name in C"):
        record([QnnGraph("a b"), QnnGraph("a_b")], tmp_path, "CPU")
    with pytest.raises(OpdbError, match=r"saver\.recording opens it"):
        Backend.open("SAVER")
    assert os.listdir(tmp_path) == ["file"]


def test_config_errors_keep_their_kind() -> None:
    from opdb.runtime.qnn.saver import record as here

    with pytest.raises(ConfigError):
        here([QnnGraph("back\\slash")], "unused", "CPU")
