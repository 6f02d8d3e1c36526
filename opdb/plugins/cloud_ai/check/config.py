"""Reads the YAML of a package into its ops, with the line of each part.

Two forms: one document per op without a version (pytorch/glow PR 5208), and ``version`` with the list ``CustomOps`` (SDK 1.10
and later).  A key without a value is an empty list.  A fault becomes a finding, and reading goes on as far as possible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from opdb.author.importers.documents import read_documents
from opdb.core.errors import OpdbError
from opdb.plugins.cloud_ai.check.findings import Findings, listed
from opdb.spec.document import At, Document

#: The YAML's names for the card, and for the host, which runs kernels in tests.
CARD = "AIC"
BACKENDS = ("Interpreter", CARD)
#: Spellings of parameter types in real files -> the type.
TYPES = {"float": "float", "int": "int", "i32": "int", "bool": "bool", "string": "string"}
MEMORIES = ("DDR", "CacheableDDR", "VTCM")
NAME = re.compile(r"[A-Za-z_]\w*")
VERSION = re.compile(r"\d+(\.\d+){0,2}")


@dataclass(frozen=True)
class Tensor:
    name: str
    max_dims: int
    line: int
    constant: bool = False


@dataclass(frozen=True)
class Parameter:
    """``size``: elements of a vector; 0 if the YAML leaves it open."""

    name: str
    type: str
    scalar: bool
    size: int
    line: int


@dataclass(frozen=True)
class Scratch:
    """``size`` in bytes."""

    name: str
    size: int
    line: int


@dataclass(frozen=True)
class Implementation:
    backend: str
    type: str
    impl: str
    line: int
    impl_line: int
    compiler_args: tuple[str, ...] = ()
    #: DDR, CacheableDDR, VTCM and requiredFor: names, each with its line.
    memory: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Op:
    type: str
    package: str
    line: int
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    library: str = ""  # functionsLibrary
    library_line: int = 0
    implementations: tuple[Implementation, ...] = ()
    file: Path = Path()
    version: str = ""
    listed: bool = True  # from CustomOps; False: a document of its own

    def kernels(self, backend: str) -> list[str]:
        return [i.type for i in self.implementations if i.backend == backend]


def yaml_files(path: Path) -> list[Path]:
    """The YAML files that describe ops: ``path`` itself, or the ones below a folder.  Raises OpdbError if there are none."""
    if not path.exists():
        raise OpdbError(f"{path}: there is no such file or folder; name a package's YAML, or its folder")
    if not path.is_dir():
        return [path]
    files = sorted(p for suffix in ("*.yaml", "*.yml") for p in path.rglob(suffix) if p.is_file())
    ours = [p for p in files if re.search(r"^\s*(CustomOps|functionsLibrary)\s*:", _text(p), re.MULTILINE)]
    if not ours:
        raise OpdbError(f"{path}: no YAML with CustomOps or functionsLibrary below it; name the file")
    return ours


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise OpdbError(f"{path}: {error.strerror}") from None


def read(path: Path, findings: Findings) -> list[Op]:
    """The ops of a file.  Raises OpdbError if it is not YAML, or has no custom op."""
    ops: list[Op] = []
    for document in read_documents(path):
        reader = _Reader(path, document, findings)
        ops += reader.ops()
    if not ops and not findings.has("yaml-form", path=path):
        raise OpdbError(f"{path}: no custom op in it: expected the list CustomOps, or a document for each op")
    seen: dict[tuple[str, str], int] = {}
    for op in ops:
        if (first := seen.setdefault((op.type, op.package), op.line)) != op.line:
            findings.add(
                "name-twice", path, op.line, op.type,
                f"the op {op.type} of {op.package} is there twice; the first one is in line {first}",
                "give one of them another type or package",
            )  # fmt: skip
    return ops


class _Reader:
    """Reads one document."""

    def __init__(self, path: Path, document: Document, findings: Findings) -> None:
        self.path, self.document, self.findings = path, document, findings
        self.op = ""

    def line(self, at: At) -> int:
        return self.document.problem(at, "").line

    def fault(self, id_: str, at: At, message: str, cure: str) -> None:
        self.findings.add(id_, self.path, self.line(at), self.op, message, cure)

    def ops(self) -> Iterator[Op]:
        data = self.document.data
        if isinstance(data, dict) and "CustomOps" in data:
            version = self._version(data)
            self._unknown(data, (), ("version", "CustomOps"))
            for at, part in self._parts(data, (), "CustomOps", required=True):
                if (op := self._op(part, at)) is not None:
                    yield replace(op, version=version)
        elif isinstance(data, dict) and ("type" in data or "functionsLibrary" in data):
            if (op := self._op(data, ())) is not None:
                yield replace(op, listed=False)
        else:
            raise OpdbError(
                f"{self.path}:{self.line(())}: neither the list CustomOps nor an op with a type; the YAML of custom ops "
                "has one of them"
            )

    def _version(self, data: dict[str, Any]) -> str:
        version = data.get("version")
        text = "" if version is None else str(version)
        if not VERSION.fullmatch(text):
            said = "there is no version" if version is None else f"{text!r} is no version"
            self.fault(
                "yaml-version",
                ("version",),
                said,
                "write the interface version of your SDK, e.g. version: 1.0.0",
            )
        return text

    def _op(self, data: dict[str, Any], at: At) -> Op | None:
        self.op = ""
        type_ = self._word(data, at, "type", "the type of the ONNX node")
        if not type_:
            return None
        self.op = type_
        self._unknown(data, at, (
            "type", "package", "name", "inputs", "outputs", "parameters", "scratchBuffers", "functionsLibrary",
            "implementations",
        ))  # fmt: skip
        package = self._word(data, at, "package", "the domain of the ONNX node")
        inputs = tuple(self._tensors(data, at, "inputs"))
        outputs = tuple(self._tensors(data, at, "outputs"))
        parameters = tuple(self._parameters(data, at))
        scratch = tuple(self._scratch(data, at))
        if not outputs and not self.findings.has("yaml-form", type_, self.path):
            self.fault("yaml-form", (*at, "outputs"), "outputs is empty", "name at least one output")
        self._once([*inputs, *outputs, *scratch])
        self._once(parameters)
        library = self._word(data, at, "functionsLibrary", "the library with verify, inferShape and select")
        made = Op(
            type_, package, self.line((*at, "type")), inputs, outputs, parameters, scratch, library,
            self.line((*at, "functionsLibrary")), file=self.path,
        )  # fmt: skip
        return replace(made, implementations=tuple(self._implementations(data, at)))

    def _tensors(self, data: dict[str, Any], at: At, key: str) -> Iterator[Tensor]:
        for where, part in self._parts(data, at, key, required=True):
            self._unknown(part, where, ("name", "maxDims", "constant"))
            name = self._word(part, where, "name", "its name")
            dims = self._whole(part, where, "maxDims", 1)
            constant = self._flag(part, where, "constant")
            if name:
                yield Tensor(name, dims, self.line(where), constant)

    def _parameters(self, data: dict[str, Any], at: At) -> Iterator[Parameter]:
        for where, part in self._parts(data, at, "parameters", required=False):
            self._unknown(part, where, ("name", "dataType", "scalar", "size"))
            name = self._word(part, where, "name", "its name")
            given = self._word(part, where, "dataType", "float, int, bool or string")
            kind = TYPES.get(given.lower(), "")
            if given and not kind:
                self.fault("parameter", (*where, "dataType"), f"{name}: the type {given!r} is none",
                           "write float, int, bool or string")  # fmt: skip
            scalar = self._flag(part, where, "scalar")
            size = self._whole(part, where, "size", 0) if part.get("size") is not None else 0
            if scalar and size:
                self.fault("parameter", (*where, "size"), f"{name} is scalar and has the size {size}",
                           "leave out size, or scalar")  # fmt: skip
            if name and kind:
                yield Parameter(name, kind, scalar, 0 if scalar else size, self.line(where))

    def _scratch(self, data: dict[str, Any], at: At) -> Iterator[Scratch]:
        for where, part in self._parts(data, at, "scratchBuffers", required=False):
            self._unknown(part, where, ("name", "size"))
            name = self._word(part, where, "name", "its name")
            size = self._whole(part, where, "size", 1)
            if name:
                yield Scratch(name, size, self.line(where))

    def _implementations(self, data: dict[str, Any], at: At) -> Iterator[Implementation]:
        for where, part in self._parts(data, at, "implementations", required=True):
            self._unknown(part, where, ("backend", "type", "impl", "config", "compilerArgs", "memoryConfig"))
            backend = self._word(part, where, "backend", "Interpreter or AIC")
            if backend and backend not in BACKENDS:
                self.fault("backend", (*where, "backend"), f"the backend {backend!r} is none",
                           "write Interpreter or AIC")  # fmt: skip
            kernel = self._word(part, where, "type", "the name of the kernel's function")
            impl = self._word(part, where, "impl", "the library (Interpreter) or the source (AIC)")
            if kernel and not NAME.fullmatch(kernel):
                self.fault("yaml-form", (*where, "type"), f"type: {kernel!r} is no name of a C function",
                           "name the function")  # fmt: skip
            elif backend in BACKENDS and kernel and impl:
                args = part.get("compilerArgs")
                words = [str(a) for a in args] if isinstance(args, list) else str(args or "").split()
                yield Implementation(
                    backend, kernel, impl, self.line(where), self.line((*where, "impl")), tuple(words),
                    self._memory(part, where),
                )  # fmt: skip

    def _memory(self, part: dict[str, Any], at: At) -> dict[str, tuple[tuple[str, int], ...]]:
        given = part.get("memoryConfig")
        if given is None:
            return {}
        where = (*at, "memoryConfig")
        if not isinstance(given, dict):
            self.fault(
                "yaml-form",
                where,
                "memoryConfig is no mapping",
                f"give it the lists {listed(MEMORIES)}, requiredFor",
            )
            return {}
        self._unknown(given, where, (*MEMORIES, "requiredFor"))
        found: dict[str, tuple[tuple[str, int], ...]] = {}
        for key in (*MEMORIES, "requiredFor"):
            names = given.get(key)
            if names is None:
                continue
            if not isinstance(names, list):
                self.fault(
                    "yaml-form", (*where, key), f"{key} is no list", "write a list of names, or nothing"
                )
                continue
            found[key] = tuple((str(n), self.line((*where, key, i))) for i, n in enumerate(names))
        return found

    # -- parts ---------------------------------------------------------------------------------------------------

    def _parts(
        self, data: dict[str, Any], at: At, key: str, *, required: bool
    ) -> Iterator[tuple[At, dict[str, Any]]]:
        """The mappings in a list; none if the key has no value."""
        if key not in data and required:
            self.fault("yaml-form", at, f"the key {key!r} is missing", f"add {key}:, which may be empty")
        items = data.get(key)
        if items is None:
            return
        if not isinstance(items, list):
            self.fault("yaml-form", (*at, key), f"{key} is no list", "begin each item with '- '")
            return
        for i, item in enumerate(items):
            if isinstance(item, dict):
                yield (*at, key, i), item
            else:
                self.fault(
                    "yaml-form", (*at, key, i), f"item {i + 1} of {key} has no keys", "write key: value pairs"
                )

    def _word(self, data: dict[str, Any], at: At, key: str, what: str) -> str:
        value = data.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value):
            return str(value)
        said = f"the key {key!r} is missing" if key not in data else f"{key} has no text"
        self.fault("yaml-form", (*at, key), said, f"write {key}: with {what}")
        return ""

    def _whole(self, data: dict[str, Any], at: At, key: str, least: int) -> int:
        value = data.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        said = f"the key {key!r} is missing" if key not in data else f"{key} is {value!r}"
        self.fault("yaml-form", (*at, key), said, f"write {key}: with a whole number of at least {least}")
        return least

    def _flag(self, data: dict[str, Any], at: At, key: str) -> bool:
        value = data.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        if str(value).lower() in ("yes", "no", "on", "off"):  # YAML 1.1
            return str(value).lower() in ("yes", "on")
        self.fault("yaml-form", (*at, key), f"{key} is {value!r}", "write true or false")
        return False

    def _unknown(self, data: dict[str, Any], at: At, known: Sequence[str]) -> None:
        for key in data:
            if key not in known:
                near = next((k for k in known if k.lower() == key.lower()), "")
                cure = f"write {near}" if near else f"remove it; there are {listed(known)}"
                self.fault("yaml-key", (*at, key), f"the key {key!r} is not known", cure)

    def _once(self, parts: Sequence[Any]) -> None:
        seen: dict[str, int] = {}
        for part in parts:
            if part.name in seen:
                self.findings.add(
                    "name-twice", self.path, part.line, self.op,
                    f"the name {part.name} is there twice; the first one is in line {seen[part.name]}",
                    "rename one of them",
                )  # fmt: skip
            seen.setdefault(part.name, part.line)


def found_path(op: Op, text: str) -> Path | None:
    """The file that a path in the YAML names, relative to the YAML's folder or the current one; both are in use."""
    for base in (op.file.parent, Path()):
        if (base / text).is_file():
            return (base / text).resolve()
    return None
