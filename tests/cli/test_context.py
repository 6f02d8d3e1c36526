"""opdb context show and check, as a user types them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.runtime.qnn import context_file
from opdb.runtime.qnn.backend import Backend

from .conftest import Run, one_line

pytestmark = pytest.mark.vendor
TARGETS = {"CPU": None, "HTP": "SM8650"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, libraries: object) -> Path:
    """A context file per backend, e.g. HTP.ctx, with two graphs."""
    made = tmp_path_factory.mktemp("contexts")
    quant = Quant("SCALE_OFFSET", (0.5,), (-3,))
    for name, soc in TARGETS.items():
        with Backend.open(name, soc, log_level="error") as backend, backend.create_context() as context:
            for graph, dtype, q in (("plain", "f32", None), ("byte", "uq8", quant)):
                x, y = (
                    GraphTensor(n, dtype, (2, 3), t, quant=q)
                    for n, t in (("x", "APP_WRITE"), ("y", "APP_READ"))
                )
                relu = GraphOp("r", "Relu", ("x",), (), ("y",))
                context.add_graph(QnnGraph(graph, {"x": x, "y": y}, [relu]))
            context.save(made / f"{name}.ctx", {"from": "a test"})
    return made


@pytest.mark.parametrize("backend", TARGETS)
def test_show_describes_a_context_file(opdb: Run, folder: Path, backend: str) -> None:
    done = opdb("context", "show", str(folder / f"{backend}.ctx"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0].startswith(f"{folder / backend}.ctx: a context file of opdb's, intact; ")
    assert "backend HTP for SM8650 (number 57)" in lines or backend == "CPU"
    assert "metadata {'from': 'a test'}" in lines
    assert sum(line.startswith("build id v2.47.") for line in lines) == (2 if backend == "HTP" else 1)
    assert sum(line.startswith("core API 2.36.0") for line in lines) == 2
    at = lines.index("graph byte")
    assert lines.index("graph plain") < at
    assert lines[at + 1].startswith("inputs x UFIXED_POINT_8 [2, 3] id ")
    assert lines[at + 1].endswith("SCALE_OFFSET: scale [0.5], offset [-3]")


def test_show_prints_json(opdb: Run, folder: Path) -> None:
    document = json.loads(opdb("context", "show", str(folder / "HTP.ctx"), "--json").stdout)
    assert document["checked"] is True
    assert document["problem"] is None
    assert document["header"]["soc_model"] == document["binary"]["soc_model"] == 57
    assert document["header"]["library"]["build_id"] == document["binary"]["build_id"]
    ours, theirs = document["header"]["graphs"], document["binary"]["graphs"]
    assert [g["name"] for g in ours] == [g["name"] for g in theirs] == ["plain", "byte"]
    assert ours[1]["inputs"][0]["quant"] == theirs[1]["inputs"][0]["quant"]


def test_show_reads_a_librarys_own_binary(opdb: Run, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "raw.bin"
    path.write_bytes(context_file.read(folder / "CPU.ctx").payload)
    done = opdb("context", "show", str(path))
    assert done.returncode == 0
    assert done.stdout.startswith(f"{path}: no opdb header: not checked; ")
    assert "graph byte\n" in done.stdout
    document = json.loads(opdb("context", "show", str(path), "--json").stdout)
    assert (document["checked"], document["header"]) == (False, None)
    done = opdb("context", "check", str(path))
    assert done.returncode == 1
    assert "raw.bin: not a context file of opdb's: its first bytes are wrong" in done.stdout


def test_files_that_are_not_contexts_are_rejected(opdb: Run, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "file"
    data = (folder / "HTP.ctx").read_bytes()
    damaged = bytearray(data)
    damaged[-100] ^= 1
    for content, reason in (
        (b"PK\x03\x04rest", "not a context: a zip archive"),
        (b"some text", "QNN failed to read the context binary: 300"),
        (bytes(damaged), "damaged: the checksum of the context binary is wrong"),
        (b"X" + data[1:], "QNN failed to read the context binary: 300"),
    ):
        path.write_bytes(content)
        assert one_line(opdb("context", "show", str(path))).startswith(f"opdb: {path}: {reason}")
    assert one_line(opdb("context", "show", str(tmp_path))).startswith(f"opdb: {tmp_path}: cannot read: ")


def test_check_reports_faulty_files(opdb: Run, folder: Path, tmp_path: Path) -> None:
    files = [folder / f"{name}.ctx" for name in TARGETS]
    done = opdb("context", "check", *map(str, files))
    assert done.stdout.splitlines() == [f"{f}: fine; graphs: plain, byte" for f in files]
    assert done.returncode == 0
    lie, broken = tmp_path / "lie.ctx", tmp_path / "broken.ctx"
    good = context_file.read(files[0])
    graphs = dict(list(good.header.graphs.items())[:1])
    context_file.write(lie, dataclasses.replace(good.header, graphs=graphs), bytes(good.payload))
    broken.write_bytes(files[0].read_bytes()[:-1])
    done = opdb("context", "check", str(files[0]), str(lie), str(broken), "--json")
    assert done.returncode == 1
    rows = json.loads(done.stdout)
    assert [row["fine"] for row in rows] == [True, False, False]
    assert "the header and the binary disagree about the graphs" in rows[1]["problem"]
    assert "cut off" in rows[2]["problem"]
    assert "cannot read" in one_line(opdb("context", "check", str(tmp_path / "nowhere")))


def test_show_prints_the_header_of_an_unreadable_binary(opdb: Run, folder: Path, tmp_path: Path) -> None:
    """The checksums are right but the binary is invalid: the header is shown, and the exit status is 1."""
    path = tmp_path / "inside.ctx"
    good = context_file.read(folder / "HTP.ctx")
    context_file.write(path, good.header, bytes(good.payload[:100]))
    done = opdb("context", "show", str(path))
    assert done.returncode == 1
    assert "graph byte" in done.stdout
    assert done.stderr.startswith(f"opdb: {path}: QNN failed to read the context binary: 30")
