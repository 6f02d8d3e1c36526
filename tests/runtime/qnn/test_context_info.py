"""QnnSystem's descriptions of context binaries: every version of its structs, and bytes that crash it."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor
from opdb.core.op_config import Quant
from opdb.generated.constants.qnn_layouts import LAYOUTS
from opdb.runtime.qnn import binary_info, context_file, context_info
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.binary_info import GRAPH_INFO, TensorInfo
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import Libraries, in_folder
from opdb.runtime.qnn.native import Arena, CData, ffi, lib, not_opened
from opdb.runtime.qnn.structs import fill_tensor
from opdb.runtime.qnn.system import system

from .test_context import TARGETS, context_of, graphs

SMALL, LARGE = (row.struct for row in LAYOUTS[GRAPH_INFO])
OLD, BETWEEN, NEW = (1, 1, 0), (1, 3, 0), (1, 11, 0)  # QnnSystem's API; 2.47 has 1.11, 1.3 was never seen
QUANT = Quant("AXIS_SCALE_OFFSET", (0.5, 0.25), (0, -3), axis=0)


def tensors(arena: Arena, names: tuple[str, ...], version: int) -> CData:
    """An array of Qnn_Tensor_t, of version 1 or 2 with a dynamic first dimension."""
    array = arena.new("Qnn_Tensor_t[]", len(names))
    for i, name in enumerate(names):
        fill_tensor(array[i], arena, name, GraphTensor(name, "uq8", (2, 3), "APP_WRITE", quant=QUANT), name)
        array[i].u.v1.id = 7 + i
        if version == 2:
            array[i].version = lib.QNN_TENSOR_VERSION_2
            array[i].u.v2.isDynamicDimensions = arena.new("uint8_t[]", [1, 0])
    return array


def graph_array(arena: Arena, layout: str, versions: tuple[int, ...], tensor_version: int = 1) -> CData:
    """Graph infos of the given versions, consecutive as in ``layout``."""
    array = arena.new(f"{layout}[]", len(versions))
    for i, version in enumerate(versions):
        array[i].version = version
        v = getattr(array[i].u, f"graphInfoV{version}")
        v.graphName = arena.text(f"g{i}")
        v.numGraphInputs, v.graphInputs = 2, tensors(arena, ("a", "b"), tensor_version)
        v.numGraphOutputs, v.graphOutputs = 1, tensors(arena, ("c",), tensor_version)
        if version > 1:
            v.numUpdateableTensors, v.updateableTensors = 1, tensors(arena, ("u",), tensor_version)
        if version == 3:
            v.graphBlobInfoSize = 99
    return array


@pytest.mark.parametrize("tensor_version", [1, 2])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_info_is_read(version: int, tensor_version: int) -> None:
    arena = Arena()
    info = arena.new("QnnSystemContext_BinaryInfo_t *")
    info.version = version
    v = getattr(info.u, f"contextBinaryInfoV{version}")
    v.backendId, v.buildId, v.socVersion = lib.QNN_BACKEND_ID_HTP, arena.text("v9.8"), arena.text("soc")
    v.coreApiVersion, v.backendApiVersion, v.contextBlobVersion = (2, 36, 1), (5, 47, 2), (3, 3, 4)
    v.contextBlobSize = 2**40
    v.numContextTensors, v.contextTensors = 1, tensors(arena, ("k",), tensor_version)
    array = graph_array(arena, LARGE, (version, version), tensor_version)
    v.numGraphs, v.graphs = 2, ffi.cast(f"{GRAPH_INFO} *", array)
    if version == 3:
        v.socModel = 57
    found = binary_info.decode(info, NEW)
    assert (found.version, found.backend, found.build_id, found.soc_version) == (
        version,
        "HTP",
        "v9.8",
        "soc",
    )
    assert (found.core_api, found.backend_api, found.context_version) == ((2, 36, 1), (5, 47, 2), (3, 3, 4))
    assert (found.context_bytes, found.soc_model) == (2**40, 57 if version == 3 else None)
    dynamic = (True, False) if tensor_version == 2 else ()
    a = TensorInfo(GraphTensor("a", "uq8", (2, 3), "APP_WRITE", quant=QUANT), 7, dynamic)
    assert [g.name for g in found.graphs] == ["g0", "g1"]
    for graph in found.graphs:
        assert graph.inputs[0] == a
        assert [t.tensor.name for t in (*graph.inputs, *graph.outputs)] == ["a", "b", "c"]
        assert [t.tensor.name for t in graph.updateable] == (["u"] if version > 1 else [])
        assert graph.blob_bytes == (99 if version == 3 else None)
    assert [t.tensor.name for t in found.tensors] == ["k"]
    assert json.loads(json.dumps(found.json()))["graphs"][1]["inputs"][1]["quant"]["axis"] == 0
    if tensor_version == 2:
        with pytest.raises(OpdbError, match="'a' has dynamic dimensions, which opdb does not"):
            context_file.interface(found.graphs[0])
    info.version = 4
    with pytest.raises(OpdbError, match="in version 4; opdb reads 1 to 3"):
        binary_info.decode(info, NEW)


@pytest.mark.parametrize(
    ("layout", "versions", "api"),
    [
        (SMALL, (1, 2, 1), OLD),
        (LARGE, (3, 1, 2), NEW),
        (LARGE, (3, 3, 3), BETWEEN),  # version 3 proves the size
        (LARGE, (1, 1, 1), BETWEEN),  # at the smaller size there is no version
        (LARGE, (2, 2, 3), BETWEEN),
        (SMALL, (1, 1, 1), BETWEEN),
        (SMALL, (2, 1, 2), BETWEEN),
        (SMALL, (1,), BETWEEN),
        (LARGE, (3,), OLD),
    ],
)
def test_the_size_of_a_graph_info_is_found(
    layout: str, versions: tuple[int, ...], api: tuple[int, ...]
) -> None:
    arena = Arena()
    elements = binary_info.graph_elements(graph_array(arena, layout, versions), len(versions), api)
    assert [int(e.version) for e in elements] == list(versions)
    assert [ffi.string(e.u.graphInfoV1.graphName) for e in elements] == [
        b"g%d" % i for i in range(len(versions))
    ]


def test_an_unproven_size_is_rejected() -> None:
    arena = Arena()
    for layout, api in ((SMALL, NEW), (LARGE, OLD)):  # known, and wrong
        with pytest.raises(
            OpdbError, match=r"QnnSystem 1\.\d+\.0 lays out the infos of its 2 graphs in a way"
        ):
            binary_info.graph_elements(graph_array(arena, layout, (1, 1)), 2, api)
    wide = arena.new("uint64_t[]", 2 * 13)  # a layout that opdb does not know
    wide[0] = wide[13] = 1
    with pytest.raises(OpdbError, match="in a way that opdb does not know"):
        binary_info.graph_elements(wide, 2, BETWEEN)
    for n, array in ((2**31, graph_array(arena, LARGE, (3,))), (1, ffi.NULL)):
        with pytest.raises(OpdbError, match=f"reports {n} graphs, which is impossible"):
            binary_info.graph_elements(array, n, NEW)
    assert binary_info.graph_elements(ffi.NULL, 0, NEW) == []


@pytest.fixture(scope="module", params=TARGETS, ids=["CPU", "HTP"])
def raw(request: pytest.FixtureRequest, libraries: Libraries) -> bytes:
    """A context binary of the vendor's library, without opdb's header."""
    name, soc = request.param
    with Backend.open(name, soc, log_level="error") as backend, context_of(backend, graphs(name)) as context:
        return context.binary()


@pytest.mark.vendor
def test_the_child_returns_the_librarys_info(raw: bytes, libraries: Libraries) -> None:
    here = system(libraries).binary_info(raw)
    assert context_info.ask(raw, "f", libraries) == json.loads(json.dumps(here.json()))
    htp = here.backend == "HTP"
    assert here.soc_model == (57 if htp else None)
    assert here.core_api == (2, 36, 0)
    assert here.build_id.startswith("v2.47." if htp else "")
    made = {g.name: g for g in graphs(here.backend)}
    assert {g.name for g in here.graphs} == set(made)
    for graph in here.graphs:
        for tensor in (*graph.inputs, *graph.outputs):
            ours = made[graph.name].tensors[tensor.tensor.name]
            assert (tensor.tensor.dtype, tensor.tensor.shape, tensor.tensor.type) == (
                ours.dtype,
                ours.shape,
                ours.type,
            )
            if ours.quant:
                assert tensor.tensor.quant is not None
                assert tensor.tensor.quant.scale == pytest.approx(ours.quant.scale, rel=1e-7)
                assert tensor.tensor.quant.offset == ours.quant.offset


def mutations(data: bytes, times: int, seed: int) -> list[bytes]:
    """Damage near the beginning, where the descriptions are and it does most harm."""
    rng, out = random.Random(seed), []
    for i in range(times):
        damaged = bytearray(data)
        at = rng.randrange(1024)
        if i % 4 == 3:
            del damaged[at:]
        else:
            n = rng.choice((1, 1, 4))
            damaged[at : at + n] = rng.choice((b"\xff" * n, b"\x80" * n, rng.randbytes(n)))
        out.append(bytes(damaged))
    return out


def survive(raw: bytes, libraries: Libraries, times: int, seed: int) -> dict[str, int]:
    """Counts the outcomes of ``times`` damaged binaries: read or refused, never anything else."""
    ends: dict[str, int] = {}
    for damaged in mutations(raw, times, seed):
        try:
            answer = context_info.ask(damaged, "f", libraries)
            end = "read"
            assert answer["backend"]
        except OpdbError as error:
            message = str(error)
            assert message.startswith("f: ") and "\n" not in message, message
            end = "crashed" if "crashed" in message else "refused"
        ends[end] = ends.get(end, 0) + 1
    return ends


@pytest.mark.vendor
def test_a_few_damaged_binaries_do_no_harm(raw: bytes, libraries: Libraries) -> None:
    assert sum(survive(raw, libraries, 4, 1).values()) == 4


@pytest.mark.vendor
@pytest.mark.sweep
def test_many_damaged_binaries_do_no_harm(raw: bytes, libraries: Libraries) -> None:
    ends = survive(raw, libraries, 300, 2)
    assert ends["refused"] and ends["crashed"], ends  # QnnSystem 2.47 does crash; opdb does not


@pytest.mark.vendor
def test_invalid_binaries_are_rejected(libraries: Libraries) -> None:
    for data in (b"", b"no binary", bytes(5000)):
        with pytest.raises(
            OpdbError, match=r"^f: QNN failed to read the context binary: 30\d\d\d QNN_SYSTEM_"
        ):
            context_info.ask(data, "f", libraries)
        with pytest.raises(QnnError, match=r"^QNN failed to read the context binary: 30\d\d\d"):
            system(libraries).binary_info(data)


ENDS = {
    "abort();": "crashed with SIGABRT over this binary; it is damaged",
    "raise(SIGSEGV);": "crashed with SIGSEGV",
    "for (;;) sleep(1);": "hung for 1 s over this binary",
    'fputs("assertion failed\\n", stderr); _exit(3);': "ended its process over this binary: assertion failed",
    'puts("{}"); fflush(stdout); return 30010;': "30010 QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY",
    "*info = NULL; return 0;": "QnnSystem says nothing about this context binary",
}


@pytest.mark.parametrize("body", ENDS)
def test_a_misbehaving_library_is_reported(body: str, tmp_path: Path) -> None:
    """A fake QnnSystem with every kind of misbehavior."""
    source = f"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "opdb/qnn_system.h"
static Qnn_ErrorHandle_t create(QnnSystemContext_Handle_t *handle) {{ *handle = &create; return 0; }}
static Qnn_ErrorHandle_t read_it(QnnSystemContext_Handle_t handle, const void *binary, uint64_t size,
                                 const QnnSystemContext_BinaryInfo_t **info) {{ {body} return 0; }}
static Qnn_ErrorHandle_t destroy(QnnSystemContext_Handle_t handle) {{ return 0; }}
static QnnSystemInterface_t provider = {{0, "TEST", {{1, 11, 0}}, {{.systemContextCreate = create,
    .systemContextGetMetaData = read_it, .systemContextFree = destroy}}}};
Qnn_ErrorHandle_t QnnSystemInterface_getProviders(const QnnSystemInterface_t ***out, uint32_t *n) {{
    static const QnnSystemInterface_t *providers[] = {{&provider}};
    *out = providers;
    *n = 1;
    return 0;
}}
"""
    (tmp_path / "t.c").write_text(source)
    include = Path(__file__).parents[3] / "generated/c/include"
    command = ["gcc", "-shared", "-fPIC", f"-I{include}", "-o", "libQnnSystem.so", "t.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with pytest.raises(OpdbError, match=f"^f: .*{ENDS[body]}"):
        context_info.ask(b"binary", "f", in_folder(tmp_path), seconds=1 if "hung" in ENDS[body] else 60)


def test_missing_and_invalid_libraries_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(OpdbError, match=r"libQnnSystem\.so: no such library"):
        context_info.ask(b"", "f", in_folder(tmp_path))
    (tmp_path / "libQnnSystem.so").write_text("text")
    with pytest.raises(OpdbError, match=r"libQnnSystem\.so: cannot open this QNN library: "):
        context_info.ask(b"", "f", in_folder(tmp_path))


def test_a_missing_dependency_is_named(tmp_path: Path) -> None:
    build = ["gcc", "-shared", "-x", "c", "/dev/null", "-o"]
    subprocess.run([*build, tmp_path / "libgone.so.1", "-Wl,-soname,libgone.so.1"], check=True)
    needing = [tmp_path / "libQnnSystem.so", "-x", "none", "-Wl,--no-as-needed", tmp_path / "libgone.so.1"]
    subprocess.run([*build, *needing], check=True)
    (tmp_path / "libgone.so.1").unlink()
    with pytest.raises(
        OpdbError, match=r"libgone\.so\.1: cannot open .*: No such file or directory; install what"
    ):
        context_info.ask(b"", "f", in_folder(tmp_path))


def test_the_package_of_a_missing_dependency_is_named() -> None:
    seen = "libatomic.so.1: cannot open shared object file: No such file or directory"  # on a bare Debian 12
    assert str(not_opened(Path("/q/libQnnSystem.so"), seen)).endswith(
        f"{seen}; install it (Debian: apt-get install libatomic1)"
    )
