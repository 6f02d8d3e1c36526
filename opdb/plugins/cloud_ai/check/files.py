"""Finds the files of a package that belong to an op: its libraries, and their sources."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.core.errors import OpdbError
from opdb.execute.packages import elf
from opdb.execute.packages.package import MANIFEST
from opdb.plugins.cloud_ai.check import source
from opdb.plugins.cloud_ai.check.config import Op, found_path
from opdb.plugins.cloud_ai.check.findings import Findings, listed, shown
from opdb.plugins.cloud_ai.check.source import SUFFIXES, Source

#: Functions of a library by interface; 1.17 has two more, which packages without tiles omit.
REQUIRED = {
    "1.17": ("customOpVerify", "customOpInferShape", "customOpSelectImpl"),
    "5.0.0": (
        "customOpVerify", "customOpInferShape", "customOpSelectImpl", "customOpSetProperties", "customOpMapTiles",
    ),
    "1.21": (
        "customOpVerify", "customOpInferShape", "customOpSelectImpl", "customOpSetProperties", "customOpMapTiles",
        "customOpDeallocateMemory",
    ),
}  # fmt: skip
#: The SDK's folder of headers: a library built with them does not fit the stand-ins.
SDK_HEADERS = Path("/opt/qti-aic/dev/inc")
MOST_SOURCES = 500


@dataclass(frozen=True)
class Library:
    """A library that the YAML names.  ``usable``: it can be loaded here."""

    path: Path
    exports: frozenset[str]
    usable: bool


class Sources:
    """The C and C++ sources below the folder of a YAML file."""

    def __init__(self, root: Path) -> None:
        paths = sorted(p for p in root.rglob("*") if p.suffix in SUFFIXES and p.is_file())
        self.all = [source.read(p) for p in paths[:MOST_SOURCES]]

    def defining(self, function: str, op: Op, near: str) -> Source | None:
        """The file that defines a function; of several, one with the op's name, then one in the folder of ``near``, a YAML path."""
        found = [s for s in self.all if source.body(s, function) is not None]
        folder = (op.file.parent / near).parent.resolve()

        def distance(s: Source) -> tuple[bool, bool, str]:
            named = op.type.lower() in s.path.name.lower() or f"/{op.type.lower()}/" in str(s.path).lower()
            return (not named, s.path.parent.resolve() != folder, str(s.path))

        return min(found, key=distance, default=None)


def interface(op: Op, functions: Source | None, library: Library | None) -> str:
    """The interface of an op: from its source, else its library's exports, else a kernel or the YAML."""
    if functions is not None:
        for word, name in (("CustomOpPropertiesHandle", "1.21"), ("CustomOpProperties", "5.0.0")):
            if re.search(rf"\b{word}\b", functions.code):
                return name
        return "1.17"
    if library is not None and library.exports:
        for word, name in (("customOpDeallocateMemory", "1.21"), ("customOpSetProperties", "5.0.0")):
            if word in library.exports:
                return name
        return "1.17"
    for one in op.implementations:
        path = found_path(op, one.impl)
        if (
            path is not None
            and path.suffix in SUFFIXES
            and re.search(r"\bnumInputs\b", source.read(path).code)
        ):
            return "1.17"
    if op.version == "5.0.0":
        return "5.0.0"
    return "1.21" if op.listed else "1.17"


def library(op: Op, text: str, line: int, what: str, findings: Findings) -> Library | None:
    """The library that a path in the YAML names; None with a finding if the file is missing or not a library."""
    path = found_path(op, text)
    if path is None:
        findings.add(
            "path", op.file, line, op.type, f"{what}: there is no {text}", _near(op, text, what)
        )  # fmt: skip
        return None
    try:
        file = elf.read(path)
    except OpdbError as error:
        said = str(error).removeprefix(f"{path}: ")
        findings.add(
            "library-load",
            op.file,
            line,
            op.type,
            f"{what} {text}: {said}",
            "build it with g++ -shared -fPIC",
        )
        return None
    if not file.loadable:
        findings.add(
            "library-load", op.file, line, op.type, f"{what} {text} is for {file.machine}, ELF{file.bits}",
            "build it for the host: the compiler loads it, not the card",
        )  # fmt: skip
    return Library(path, frozenset(file.exports), file.loadable)


def _near(op: Op, text: str, what: str) -> str:
    """The cure for a missing library: name another one that exists, build it, or correct the path."""
    folder = (op.file.parent / text).parent
    others = sorted(p for p in folder.glob("*.so") if p.is_file()) if folder.is_dir() else []
    wanted = "customOpSelectImpl" if what == "functionsLibrary" else ""
    for other in others:
        try:
            if not wanted or wanted in elf.read(other).exports:
                return f"build it, or name {shown(other)}, which is there"
        except OpdbError:
            continue
    return "build it, or correct the path"


def check_exports(op: Op, found: Library, interface_name: str, findings: Findings) -> None:
    missing = [f for f in REQUIRED[interface_name] if f not in found.exports]
    if missing:
        findings.add(
            "library-symbol", op.file, op.library_line, op.type,
            f"{shown(found.path)} does not export {listed(missing)}, which interface {interface_name} has",
            'define it, inside extern "C" in C++',
        )  # fmt: skip


def fits(op: Op, interface_name: str) -> bool:
    """True if a package's libraries can be called: their layouts are public, or opdb's own.

    The layouts of 1.17 are public.  For later interfaces, only packages that opdb built without the SDK surely use its stand-ins.
    """
    if interface_name == "1.17":
        return True
    folders = [op.file.resolve().parent, *op.file.resolve().parents[1:3]]
    return any((f / MANIFEST).is_file() for f in folders) and not os.path.isdir(SDK_HEADERS)


def companions(main: Source, sources: Sequence[Source], kernels: Sequence[str]) -> list[Path]:
    """The sources that a source may need for linking: the others in its folder, except other ops and AIC kernels."""
    out = [main.path]
    for s in sources:
        beside = s.path.parent == main.path.parent and s.path != main.path
        if (
            beside
            and source.body(s, "customOpVerify") is None
            and not any(source.body(s, k) for k in kernels)
        ):
            out.append(s.path)
    return out
