"""Contexts on the vendor's libraries: saved, loaded in a new process, retrieved by name, switched."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.runtime.qnn import context_file
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.context import Context
from opdb.runtime.qnn.errors import QnnError
from opdb.runtime.qnn.libraries import in_folder
from opdb.runtime.qnn.session import Session
from opdb.runtime.qnn.switcher import ContextSwitcher
from opdb.runtime.qnn.system import System

pytestmark = [pytest.mark.vendor, pytest.mark.usefixtures("libraries")]
TARGETS = [("CPU", None), ("HTP", "SM8650")]
BOUND = 5 << 20  # bytes of resident memory that a thousand switches may cost
Q8, Q16 = Quant("SCALE_OFFSET", (0.1,), (-3,)), Quant("SCALE_OFFSET", (0.001,), (-32768,))


def relu(name: str, dtype: str = "f32", quant: Quant | None = None) -> QnnGraph:
    ends = {
        n: GraphTensor(n, dtype, (4, 6), t, quant=quant) for n, t in (("x", "APP_WRITE"), ("y", "APP_READ"))
    }
    return QnnGraph(name, ends, [GraphOp("r", "Relu", ("x",), (), ("y",))])


def difference(name: str) -> QnnGraph:
    """b - a and its Relu: inputs and outputs are declared in a different order than the nodes use them."""
    tensors = [
        GraphTensor("a", "f32", (4, 6), "APP_WRITE"),
        GraphTensor("positive", "f32", (4, 6), "APP_READ"),
        GraphTensor("b", "f32", (4, 6), "APP_WRITE"),
        GraphTensor("d", "f32", (4, 6), "APP_READ"),
    ]
    ops = [
        GraphOp("s", "ElementWiseSubtract", ("b", "a"), (), ("d",)),
        GraphOp("r", "Relu", ("d",), (), ("positive",)),
    ]
    return QnnGraph(name, {t.name: t for t in tensors}, ops)


def linear(name: str, seed: int, size: int = 16) -> QnnGraph:
    """A fully connected layer with its own weights, so that contexts compute different results."""
    weight = np.random.default_rng(seed).normal(size=(size, size)).astype(np.float32)
    tensors = [
        GraphTensor("x", "f32", (4, size), "APP_WRITE"),
        GraphTensor("weight", "f32", (size, size), "STATIC", weight),
        GraphTensor("y", "f32", (4, size), "APP_READ"),
    ]
    return QnnGraph(
        name, {t.name: t for t in tensors}, [GraphOp("f", "FullyConnected", ("x", "weight"), (), ("y",))]
    )


def graphs(backend: str) -> list[QnnGraph]:
    made = [relu("plain"), difference("difference"), relu("byte", "uq8", Q8), linear("linear", 1)]
    return [*made, relu("word", "uq16", Q16)] if backend == "HTP" else made  # CPU has no 16-bit Relu


def example(graph: QnnGraph) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(5)

    def values(t: GraphTensor) -> np.ndarray[Any, Any]:
        if t.quant is None:
            return rng.normal(size=t.shape).astype(np.float32)
        kind = np.dtype({"uq8": "uint8", "uq16": "uint16"}[t.dtype])
        return rng.integers(0, np.iinfo(kind).max, t.shape).astype(kind)

    return {t.name: values(t) for t in graph.inputs}


def context_of(backend: Backend, made: list[QnnGraph]) -> Context:
    context = backend.create_context()
    for graph in made:
        context.add_graph(graph)
    return context


@pytest.fixture(params=TARGETS, ids=["CPU", "HTP"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    name, soc = request.param
    with Backend.open(name, soc, log_level="warning") as opened:
        yield opened


Saved = tuple[Path, dict[str, dict[str, np.ndarray[Any, Any]]]]


@pytest.fixture
def saved(backend: Backend, tmp_path: Path) -> Saved:
    """A file with several graphs, and the results of each graph of the original context."""
    path = tmp_path / "several.ctx"
    made = graphs(backend.name)
    with context_of(backend, made) as context:
        context.save(path, {"note": "α", "ends": {"byte.x": [0.1, -3]}})
        outputs = {g.name: context.graph(g.name).execute(example(g)) for g in made}
    return path, outputs


NEW_PROCESS = """
import sys, pathlib, numpy as np
from opdb.runtime.qnn.backend import Backend
folder, name, soc = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None
with Backend.open(name, soc) as backend, backend.load_context(folder / "several.ctx") as context:
    for graph in reversed(context.graph_names):
        with np.load(folder / f"{graph}.in.npz") as inputs:
            np.savez(folder / f"{graph}.out.npz", **context.graph(graph).execute(dict(inputs)))
"""


def test_a_loaded_context_gives_the_same_bytes_in_a_new_process(backend: Backend, saved: Saved) -> None:
    path, expected = saved
    for graph in graphs(backend.name):
        np.savez(path.parent / f"{graph.name}.in.npz", **example(graph))
    command = [sys.executable, "-c", NEW_PROCESS, str(path.parent), backend.name, backend.soc or ""]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    for name, outputs in expected.items():
        with np.load(path.parent / f"{name}.out.npz") as found:
            assert set(found) == set(outputs)
            for tensor, values in outputs.items():
                assert found[tensor].dtype == values.dtype
                assert found[tensor].tobytes() == values.tobytes(), (name, tensor)
    x = example(difference("d"))
    np.testing.assert_allclose(expected["difference"]["d"], x["b"] - x["a"], atol=1e-2)  # HTP: float16


def test_a_file_keeps_graphs_by_name_and_metadata(backend: Backend, saved: Saved) -> None:
    path, expected = saved
    with backend.load_context(path) as context:
        assert context.graph_names == tuple(expected)
        assert context.metadata == {"note": "α", "ends": {"byte.x": [0.1, -3]}}
        for name in ("byte", "plain", "byte"):
            graph = context.graph(name)
            assert graph.name == name
            made = next(g for g in graphs(backend.name) if g.name == name)
            assert graph.execute(example(made))["y"].tobytes() == expected[name]["y"].tobytes()
        end = context.graph("byte").inputs[0]
        assert end.quant == Quant("SCALE_OFFSET", (float(np.float32(0.1)),), (-3,))
        assert {t.name for t in context.graph("difference").inputs} == {"a", "b"}
        with pytest.raises(OpdbError, match=r"has no graph 'Byte'; it has: plain, difference, byte, linear"):
            context.graph("Byte")
        with pytest.raises(OpdbError, match="finalized; nothing can be added"):
            context.graph("plain").add(relu("more"))


def test_packing_a_read_file_gives_the_same_bytes(backend: Backend, saved: Saved, tmp_path: Path) -> None:
    path, _ = saved
    file = context_file.read(path)
    assert context_file.pack(file.header, bytes(file.payload)) == path.read_bytes()
    assert list(tmp_path.iterdir()) == [path]  # no temporary file is left


def test_a_loaded_context_can_be_saved_on_cpu(backend: Backend, saved: Saved, tmp_path: Path) -> None:
    """CPU writes it again; HTP 2.47 refuses (1005)."""
    path, expected = saved
    again = tmp_path / "again.ctx"
    with backend.load_context(path) as context:
        if backend.name == "HTP":
            with pytest.raises(OpdbError, match=r"the HTP backend does not write the context .*several\.ctx"):
                context.save(again)
            assert not again.exists()
            return
        context.save(again)
    with backend.load_context(again) as context:
        assert context.metadata["note"] == "α"
        outputs = context.graph("linear").execute(example(linear("linear", 1)))
    assert outputs["y"].tobytes() == expected["linear"]["y"].tobytes()


def test_invalid_saves_are_rejected(backend: Backend, tmp_path: Path) -> None:
    path = tmp_path / "a.ctx"
    with backend.create_context() as context:
        context.add_graph(relu("done"))
        for metadata in ({"x": {1, 2}}, {"x": float("nan")}, {1: 2}):
            with pytest.raises(OpdbError, match="metadata of a context file must be a JSON object"):
                context.save(path, metadata)  # type: ignore[arg-type]
        (tmp_path / "file").touch()
        with pytest.raises(OpdbError, match="cannot write"):
            context.save(tmp_path / "file" / "a.ctx")
        context.create_graph("open").add(relu("open"))
        with pytest.raises(OpdbError, match="the graph 'open' is not finalized; it cannot be saved"):
            context.save(path)
    with pytest.raises(OpdbError, match="is closed"):
        context.save(path)
    assert not path.exists()


@pytest.fixture
def no_vendor(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Once armed, any call of a library to read a context fails."""

    def refuse(self: object, *args: Any) -> Any:
        raise AssertionError(f"{self}: called with {args}")

    def arm() -> None:
        monkeypatch.setattr(Session, "ask", refuse)
        monkeypatch.setattr(System, "binary_info", refuse)

    return arm


def test_a_file_for_another_backend_soc_or_build_is_rejected(
    saved: Saved, backend: Backend, no_vendor: Any
) -> None:
    path, _ = saved
    file = context_file.read(path)
    damaged = path.with_name("damaged.ctx")
    damaged.write_bytes(path.read_bytes()[:-1])

    def variant(**changes: Any) -> Path:
        header = dataclasses.replace(file.header, **changes)
        context_file.write(path.with_name("variant.ctx"), header, bytes(file.payload))
        return path.with_name("variant.ctx")

    other = "HTP" if backend.name == "CPU" else "CPU"
    no_vendor()
    with pytest.raises(OpdbError, match=r"damaged\.ctx: damaged or cut off"):
        backend.load_context(damaged)
    with pytest.raises(
        OpdbError, match=rf"variant\.ctx: made for the {other} backend; this is the {backend.name}"
    ):
        backend.load_context(variant(backend=other))
    with pytest.raises(
        OpdbError, match=r"variant\.ctx: made for SM8550 \(number 43\); this backend is open for"
    ):
        backend.load_context(variant(soc="SM8550", soc_model=43))
    with pytest.raises(
        OpdbError, match=rf"build v2\.1\.0; this one is {backend.build_id}; make the file again"
    ):
        backend.load_context(variant(build_id="v2.1.0"))


def test_another_build_can_be_allowed(saved: Saved, backend: Backend) -> None:
    """CPU's binaries do not name their build; HTP's do, and then contradict the header."""
    path, _ = saved
    file = context_file.read(path)
    context_file.write(path, dataclasses.replace(file.header, build_id="v2.1.0"), bytes(file.payload))
    if backend.name == "HTP":
        with pytest.raises(OpdbError, match=r"disagree about the build id: v2\.1\.0 and v2\.47"):
            backend.load_context(path, allow_other_build=True)
    else:
        with backend.load_context(path, allow_other_build=True) as context:
            assert "plain" in context.graph_names


def test_a_file_of_another_soc_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.ctx"
    with Backend.open("HTP", "SM8550") as backend, context_of(backend, [relu("plain")]) as context:
        context.save(path)
    with Backend.open("HTP", "SM8650") as backend:
        with pytest.raises(
            OpdbError, match=r"a\.ctx: made for SM8550 \(number 43\); .* SM8650 \(number 57\)"
        ):
            backend.load_context(path)
        file = context_file.read(path)
        header = dataclasses.replace(file.header, soc="SM8650", soc_model=57)  # a lie with good checksums
        context_file.write(path, header, bytes(file.payload))
        with pytest.raises(OpdbError, match="disagree about the SoC number: 57 and 43"):
            backend.load_context(path)
        path.write_bytes(file.payload)
        with pytest.raises(OpdbError, match="made for HTP, SoC number 43; this is the HTP backend"):
            backend.load_raw_context(path)


def test_a_header_that_contradicts_the_binary_is_rejected(saved: Saved, backend: Backend) -> None:
    path, _ = saved
    file = context_file.read(path)
    honest = dict(file.header.graphs)
    x = honest["byte"].inputs[0]
    lies = {
        "the graphs": {k: v for k, v in honest.items() if k != "byte"},
        "the inputs of the graph byte": honest
        | {"byte": dataclasses.replace(honest["byte"], inputs=(dataclasses.replace(x, id=x.id + 40),))},
        "the outputs of the graph plain": honest
        | {"plain": dataclasses.replace(honest["plain"], outputs=honest["linear"].outputs)},
        "the inputs of the graph difference": honest
        | {"difference": dataclasses.replace(honest["difference"], inputs=honest["difference"].inputs[::-1])},
    }
    for what, lie in lies.items():
        context_file.write(path, dataclasses.replace(file.header, graphs=lie), bytes(file.payload))
        with pytest.raises(
            OpdbError, match=f"the header and the binary disagree about the {what.removeprefix('the ')}"
        ):
            backend.load_context(path)


def test_a_librarys_own_binary_can_be_loaded(backend: Backend, saved: Saved, tmp_path: Path) -> None:
    path, expected = saved
    raw = tmp_path / "raw.bin"
    raw.write_bytes(context_file.read(path).payload)
    with pytest.raises(OpdbError, match=r"raw\.bin: not a context file of opdb's: .*load_raw_context"):
        backend.load_context(raw)
    with pytest.raises(OpdbError, match=r"several\.ctx: a context file of opdb's; load it with"):
        backend.load_raw_context(path)
    with backend.load_raw_context(raw) as context:
        outputs = context.graph("linear").execute(example(linear("linear", 1)))
    assert outputs["y"].tobytes() == expected["linear"]["y"].tobytes()
    raw.write_bytes(b"no context binary at all")
    with pytest.raises(OpdbError, match=r"raw\.bin: QNN failed to read the context binary: 30\d\d\d"):
        backend.load_raw_context(raw)
    # well-formed outside, garbage inside: opdb's checksums are right, so the libraries have the word
    file = context_file.read(path)
    context_file.write(raw, file.header, bytes(file.payload[:200]))
    with pytest.raises((OpdbError, QnnError), match=r"raw\.bin"):
        backend.load_context(raw)


def test_a_missing_system_library_is_reported(tmp_path: Path, libraries: Any, saved: Saved) -> None:
    folder = tmp_path / "onnxruntime_qnn"
    folder.mkdir()
    (tmp_path / "onnxruntime_qnn.libs").symlink_to(libraries.folder.parent / "onnxruntime_qnn.libs")
    (folder / "libQnnCpu.so").symlink_to(libraries.folder / "libQnnCpu.so")
    with Backend.open("CPU", libraries=in_folder(folder)) as backend:
        context = context_of(backend, [relu("plain")])
        with pytest.raises(OpdbError, match=r"libQnnSystem\.so: no such library"):
            context.save(tmp_path / "a.ctx")
    assert not (tmp_path / "a.ctx").exists()


@pytest.fixture
def files(backend: Backend, tmp_path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Three files of one graph each, and their results."""
    expected = {}
    for i, name in enumerate(("a", "b", "c")):
        graph = linear("linear", i)
        with context_of(backend, [graph]) as context:
            context.save(tmp_path / f"{name}.ctx")
            expected[f"{name}.ctx"] = context.graph("linear").execute(example(graph))["y"]
    return expected


def test_contexts_are_switched_by_file_name(
    backend: Backend, files: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    x = example(linear("linear", 0))
    with ContextSwitcher(backend, keep=2, folder=tmp_path) as switcher:
        for name in ("a.ctx", "b.ctx", "a.ctx", "b.ctx"):
            assert switcher.execute(name, "linear", x)["y"].tobytes() == files[name].tobytes()
        assert switcher.loads == 2
        switcher.execute("a.ctx", "linear", x)
        left = switcher.context("b.ctx")
        switcher.execute("a.ctx", "linear", x)
        assert switcher.execute(tmp_path / "c.ctx", "linear", x)["y"].tobytes() == files["c.ctx"].tobytes()
        assert [p.name for p in switcher.loaded] == ["a.ctx", "c.ctx"]  # b was used least recently
        assert left.closed
        with pytest.raises(OpdbError, match="is closed"):
            left.graph("linear")
        switcher.context("a.ctx").close()  # by hand: it is loaded again
        assert switcher.execute("a.ctx", "linear", x)["y"].tobytes() == files["a.ctx"].tobytes()
        assert switcher.loads == 4
        for wrong in ("nowhere.ctx", "."):
            with pytest.raises(OpdbError, match="cannot read"):
                switcher.execute(wrong, "linear", x)
        with pytest.raises(OpdbError, match="has no graph 'b'"):
            switcher.graph("a.ctx", "b")
        assert [p.name for p in switcher.loaded] == ["c.ctx", "a.ctx"]
        switcher.release("a.ctx")
        switcher.release("a.ctx")
        assert [p.name for p in switcher.loaded] == ["c.ctx"]
    assert switcher.loaded == ()
    with pytest.raises(OpdbError, match="at least one context"):
        ContextSwitcher(backend, keep=0)


def test_threads_share_a_switcher(
    backend: Backend, files: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    x = example(linear("linear", 0))
    wrong: list[object] = []
    with ContextSwitcher(backend, keep=1, folder=tmp_path) as switcher:

        def work(shift: int) -> None:
            try:
                for i in range(8):
                    name = "abc"[(i + shift) % 3] + ".ctx"
                    if switcher.execute(name, "linear", x)["y"].tobytes() != files[name].tobytes():
                        wrong.append(name)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def resident() -> int:
    """Bytes of resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def growth(switcher: ContextSwitcher, times: int, x: dict[str, Any], expected: dict[str, Any]) -> int:
    """Memory growth during ``times`` switches between two files, after a warm-up of 50."""
    before = 0
    for i in range(times + 50):
        if i == 50:
            before = resident()
        name = ("a.ctx", "b.ctx")[i % 2]
        assert switcher.execute(name, "linear", x)["y"].tobytes() == expected[name].tobytes()
    return resident() - before


def test_a_thousand_switches_do_not_leak(
    backend: Backend, files: dict[str, np.ndarray[Any, Any]], tmp_path: Path
) -> None:
    with ContextSwitcher(backend, folder=tmp_path) as switcher:
        assert growth(switcher, 1000, example(linear("linear", 0)), files) < BOUND
        assert switcher.loads == 2


@pytest.mark.sweep
@pytest.mark.parametrize("size", [16, 256])
def test_a_thousand_loads_do_not_leak(backend: Backend, tmp_path: Path, size: int) -> None:
    """Only one context fits: every switch releases one and loads the other."""
    expected = {}
    for i, name in enumerate(("a.ctx", "b.ctx")):
        graph = linear("linear", i, size)
        with context_of(backend, [graph]) as context:
            context.save(tmp_path / name)
            expected[name] = context.graph("linear").execute(example(graph))["y"]
    with ContextSwitcher(backend, keep=1, folder=tmp_path) as switcher:
        assert growth(switcher, 1000, example(linear("linear", 0, size)), expected) < BOUND
        assert switcher.loads == 1050
