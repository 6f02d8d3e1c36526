"""opdb's file format around a context binary: checksums, and the target of the binary.

The layout is in docs/reference/qnn-runtime.md, "Context files".  QNN HTP silently accepts most damaged binaries, so
this module checks everything before a library gets it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opdb.core.errors import OpdbError
from opdb.core.files import write_atomically
from opdb.core.graph import GraphTensor
from opdb.core.names import counted
from opdb.core.op_config import OpConfig, TensorConfig, from_json, to_json
from opdb.runtime.qnn.binary_info import BinaryInfo, GraphInfo
from opdb.runtime.qnn.graph import Interface, Tensor

if TYPE_CHECKING:
    from opdb.runtime.qnn.backend import Backend

MAGIC = b"\x8aOPDBCTX"  # not text, so a text-mode transfer truncates or changes it
VERSION = 1
#: magic, version, bytes of the header, bytes of the payload, SHA-256 of the payload; little-endian
PREFIX = struct.Struct("<8sIIQ32s")
SHA = 32
#: The signatures of files that users might mistake for a context file.
OTHERS = (
    (0, b"PK\x03\x04", "a zip archive (a .dlc or .pt2 is one)"),
    (0, b"\x7fELF", "a shared library or program"),
    (4, b"ET12", "an ExecuTorch program (.pte)"),
)
MAX_ID = 2**32 - 1


@dataclass(frozen=True)
class Header:
    """The target and the origin of a context binary.

    ``build_id`` is the library's; ``sha256`` is of the library's file, for information; ``graphs`` by name, with
    inputs and outputs in the library's order; ``metadata`` is the user's, anything that JSON can represent.
    """

    backend: str
    soc: str | None
    soc_model: int | None
    package: str
    version: str
    build_id: str
    sha256: str
    core_api: tuple[int, int, int]
    backend_api: tuple[int, int, int]
    opdb: str
    graphs: Mapping[str, Interface]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> dict[str, Any]:
        library = {"package": self.package, "version": self.version, "build_id": self.build_id}
        library |= {"sha256": self.sha256}
        return {
            "backend": self.backend,
            "soc": self.soc,
            "soc_model": self.soc_model,
            "library": library,
            "core_api": list(self.core_api),
            "backend_api": list(self.backend_api),
            "opdb": self.opdb,
            "graphs": [_graph_json(name, graph) for name, graph in self.graphs.items()],
            "metadata": dict(self.metadata),
        }

    def soc_text(self) -> str:
        return f"{self.soc or 'the SoC'} (number {self.soc_model})"


@dataclass(frozen=True)
class ContextFile:
    """An intact file: its header and the vendor's binary.  ``name`` is for messages."""

    name: str
    header: Header
    payload: memoryview

    def check_backend(self, backend: Backend, *, allow_other_build: bool = False) -> None:
        """Raises OpdbError unless this file was made for ``backend``: same kind, SoC and library build."""
        header, name = self.header, self.name
        if header.backend != backend.name:
            raise OpdbError(
                f"{name}: made for the {header.backend} backend; this is the {backend.name} backend"
            )
        if header.soc_model != backend.soc_model:
            here = f"{backend.soc or 'the SoC'} (number {backend.soc_model})"
            raise OpdbError(f"{name}: made for {header.soc_text()}; this backend is open for {here}")
        if header.build_id != backend.build_id and not allow_other_build:
            raise OpdbError(
                f"{name}: made by the library build {header.build_id}; this one is {backend.build_id}; "
                "make the file again, or pass allow_other_build=True"
            )

    def check_info(self, info: BinaryInfo) -> None:
        """Raises OpdbError if QnnSystem's report about the binary differs from the header."""
        header = self.header
        pairs: list[tuple[str, object, object]] = [
            ("backend", header.backend, info.backend),
            ("core API", header.core_api, info.core_api),
            ("graphs", sorted(header.graphs), sorted(g.name for g in info.graphs)),
        ]
        if info.build_id:
            pairs.append(("build id", header.build_id, info.build_id))
        if info.soc_model is not None:
            pairs.append(("SoC number", header.soc_model, info.soc_model))
        for graph in info.graphs:
            if graph.name in header.graphs:
                ours = header.graphs[graph.name]
                theirs = interface(graph)
                pairs += [
                    (f"inputs of the graph {graph.name}", ours.inputs, theirs.inputs),
                    (f"outputs of the graph {graph.name}", ours.outputs, theirs.outputs),
                ]
        for what, ours_, theirs_ in pairs:
            if ours_ != theirs_:
                raise OpdbError(
                    f"{self.name}: the header and the binary disagree about the {what}: {ours_} and {theirs_}"
                )


def interface(graph: GraphInfo) -> Interface:
    """A graph's inputs and outputs as QnnSystem reports them.  Raises OpdbError for unsupported tensors."""
    sides = []
    for tensors, kind in ((graph.inputs, "APP_WRITE"), (graph.outputs, "APP_READ")):
        for t in tensors:
            if t.tensor.type != kind or any(t.dynamic):
                what = "dynamic dimensions" if any(t.dynamic) else f"the type {t.tensor.type}"
                raise OpdbError(
                    f"the graph {graph.name!r}: the tensor {t.tensor.name!r} has {what}, which opdb does not "
                    "load from a context binary"
                )
        sides.append(tuple(Tensor(t.tensor, t.id) for t in tensors))
    return Interface(*sides)


def pack(header: Header, binary: bytes) -> bytes:
    """A file's bytes, the same for the same header and binary.  Raises OpdbError if the metadata is not JSON."""
    try:
        text = json.dumps(header.json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        if json.loads(text) != header.json():
            raise ValueError("it reads back differently")
    except (TypeError, ValueError, RecursionError) as error:
        raise OpdbError(f"metadata of a context file must be a JSON object: {error}") from None
    head = text.encode()
    prefix = PREFIX.pack(MAGIC, VERSION, len(head), len(binary), hashlib.sha256(binary).digest())
    return b"".join((prefix, head, hashlib.sha256(prefix + head).digest(), binary))


def write(path: Path, header: Header, binary: bytes) -> None:
    """Writes a context file atomically.  Raises OpdbError."""
    write_atomically(path, pack(header, binary))


def read(path: Path | str) -> ContextFile:
    """Reads the context file at ``path``.  Raises OpdbError with the reason if it is not intact."""
    return unpack(read_bytes(path), str(path))


def read_bytes(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OpdbError(f"{path}: cannot read: {error.strerror}") from None


def unpack(data: bytes, name: str) -> ContextFile:
    """Parses ``data``; ``name`` is for messages.  Raises OpdbError unless every byte is as written."""
    if data[: len(MAGIC)] != MAGIC:
        what = (
            _kind(data) or "its first bytes are wrong (Backend.load_raw_context takes a library's own binary)"
        )
        raise OpdbError(f"{name}: not a context file of opdb's: {what}")
    if len(data) < PREFIX.size:
        raise OpdbError(f"{name}: cut off after {counted(len(data), 'byte')}, inside the header")
    _, number, n_head, n_payload, payload_sha = PREFIX.unpack_from(data)
    if number > VERSION:
        raise OpdbError(f"{name}: context file format {number}; this opdb reads {VERSION}: use a newer opdb")
    if number != VERSION:
        raise OpdbError(f"{name}: damaged: {number} is not a format of context files")
    start = PREFIX.size + n_head + SHA
    expected = start + n_payload
    if len(data) != expected:
        how = "cut off" if len(data) < expected else "longer than it says"
        raise OpdbError(
            f"{name}: damaged or {how}: {counted(len(data), 'byte')} where its header counts {expected}"
        )
    view = memoryview(data)
    if hashlib.sha256(view[: start - SHA]).digest() != view[start - SHA : start]:
        raise OpdbError(f"{name}: damaged: the checksum of its header is wrong")
    if hashlib.sha256(view[start:]).digest() != payload_sha:
        raise OpdbError(f"{name}: damaged: the checksum of the context binary is wrong")
    return ContextFile(name, _header(data[PREFIX.size : start - SHA], name), view[start:])


def is_context_file(data: bytes) -> bool:
    """True if ``data`` begins like opdb's context file, damaged or not."""
    return data[: len(MAGIC)] == MAGIC


def refuse_others(data: bytes, name: str) -> None:
    """Raises OpdbError for data that is recognizably neither a context file nor a library's binary."""
    what = _kind(data)
    if what:
        raise OpdbError(f"{name}: not a context: {what}")


def _kind(data: bytes) -> str:
    if not data:
        return "it is empty"
    return next((what for at, mark, what in OTHERS if data[at : at + len(mark)] == mark), "")


def _graph_json(name: str, graph: Interface) -> dict[str, Any]:
    sides = (graph.inputs, graph.outputs)
    inputs, outputs = (
        tuple(TensorConfig(c.name, c.dtype, c.shape, c.type, quant=c.quant) for c in (t.config for t in side))
        for side in sides
    )
    ends = to_json(OpConfig(name, inputs, (), outputs))
    ids = [[t.id for t in side] for side in sides]
    return {"name": name, "inputs": ends["inputs"], "outputs": ends["outputs"], "ids": ids}


def _header(text: bytes, name: str) -> Header:
    """Parses the header and checks each field, because any program could have written the file."""
    where = f"{name}: header"
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        raise OpdbError(f"{where}: not JSON") from None
    library = _field(raw, "library", dict, where)
    graphs = {}
    for i, graph in enumerate(_field(raw, "graphs", list, where)):
        graph_name = _field(graph, "name", str, f"{where}: graphs[{i}]")
        if graph_name in graphs:
            raise OpdbError(f"{where}: two graphs are called {graph_name!r}")
        graphs[graph_name] = _interface(graph, f"{where}: graphs[{i}]")
    return Header(
        backend=_field(raw, "backend", str, where),
        soc=_field(raw, "soc", (str, type(None)), where),
        soc_model=_field(raw, "soc_model", (int, type(None)), where),
        package=_field(library, "package", str, where),
        version=_field(library, "version", str, where),
        build_id=_field(library, "build_id", str, where),
        sha256=_field(library, "sha256", str, where),
        core_api=_api(raw, "core_api", where),
        backend_api=_api(raw, "backend_api", where),
        opdb=_field(raw, "opdb", str, where),
        graphs=graphs,
        metadata=_field(raw, "metadata", dict, where),
    )


def _field(raw: Any, key: str, kind: type | tuple[type, ...], where: str) -> Any:
    if not isinstance(raw, Mapping) or key not in raw:
        raise OpdbError(f"{where}: the field {key!r} is missing")
    if not isinstance(raw[key], kind) or isinstance(raw[key], bool):
        raise OpdbError(f"{where}: {key!r} cannot be {type(raw[key]).__name__}")
    return raw[key]


def _api(raw: Any, key: str, where: str) -> tuple[int, int, int]:
    numbers = _field(raw, key, list, where)
    if len(numbers) != 3 or any(type(n) is not int for n in numbers):
        raise OpdbError(f"{where}: {key!r} is not a version of three numbers")
    return (numbers[0], numbers[1], numbers[2])


def _interface(raw: Any, where: str) -> Interface:
    ends = {key: _field(raw, key, list, where) for key in ("inputs", "outputs", "ids")}
    try:
        config = from_json({"op": "graph", "inputs": ends["inputs"], "outputs": ends["outputs"]})
    except OpdbError as error:
        raise OpdbError(f"{where}.{error}") from None
    sides: list[tuple[Tensor, ...]] = []
    expected = (("APP_WRITE", config.inputs), ("APP_READ", config.outputs))
    ids = ends["ids"]
    if len(ids) != 2 or not all(isinstance(side, list) for side in ids):
        raise OpdbError(f"{where}: 'ids' are two lists")
    for (kind, tensors), numbers in zip(expected, ids, strict=True):
        if len(tensors) != len(numbers) or any(type(n) is not int or not 0 <= n <= MAX_ID for n in numbers):
            raise OpdbError(f"{where}: 'ids' has one number for each tensor")
        if wrong := next((t for t in tensors if t.type != kind or t.data is not None), None):
            raise OpdbError(f"{where}: the tensor {wrong.name!r} is not of type {kind} without data")
        sides.append(tuple(map(_tensor, tensors, numbers)))
    if len({t.config.name for side in sides for t in side}) != sum(map(len, sides)):
        raise OpdbError(f"{where}: two tensors have the same name")
    return Interface(*sides)


def _tensor(config: TensorConfig, number: int) -> Tensor:
    return Tensor(
        GraphTensor(config.name, config.dtype, config.shape, config.type, quant=config.quant), number
    )
