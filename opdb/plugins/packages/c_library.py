"""Selective build: a folder with the C sources of only the ops and data types that a program needs, and its library.

It is compiled for this machine, or by clang for Hexagon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opdb.core.c_compiler import compiled, make
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.core.source_folder import write_folder
from opdb.plugins.hexagon import codegen as hexagon
from opdb.plugins.hexagon.tools import check_compiler
from opdb.plugins.packages.codegen import c_library
from opdb.plugins.packages.codegen.c_library import HEXAGON, HOST, TARGETS
from opdb.spec.catalog import Catalog

MANIFEST = "opdb-library.json"
#: clang takes about a minute for all ops.
HEXAGON_SECONDS = 1800


@dataclass(frozen=True)
class Library:
    """A folder of sources.  ``build`` makes the ``products`` in it."""

    folder: Path
    needed: Mapping[str, tuple[str, ...]]  # op -> data types of its first input
    files: tuple[str, ...]  # below the folder
    target: str = HOST

    @property
    def products(self) -> tuple[Path, ...]:
        """Two libraries; for Hexagon: the static one, its C runtime's, and the server."""
        if self.target == HEXAGON:
            return self.static, self.folder / "libopdb_runtime.a", self.server
        return self.static, self.shared

    @property
    def server(self) -> Path:
        """The program that opdb.plugins.hexagon.Server runs."""
        return self.folder / hexagon.SERVER

    @property
    def static(self) -> Path:
        return self.folder / f"lib{c_library.NAME}.a"

    @property
    def shared(self) -> Path:
        return self.folder / f"lib{c_library.NAME}.so"


def of_graphs(graphs: Iterable[QnnGraph]) -> dict[str, frozenset[str]]:
    """Maps each op to the data types of its nodes' first inputs."""
    found: dict[str, set[str]] = {}
    for graph in graphs:
        for op in graph.ops:
            first = op.inputs[0] if op.inputs else None
            found.setdefault(op.op, set()).update([] if first is None else [graph.tensors[first].dtype])
    return {op: frozenset(dtypes) for op, dtypes in found.items()}


def of_words(words: Iterable[str], known: Callable[[str], str]) -> dict[str, frozenset[str]]:
    """Parses ``LayerNorm`` (all data types of its kernel) and ``Softmax:f32,uq8``.

    ``known`` returns an op's name, or raises OpdbError; an unknown data type also raises it.
    """
    parts = []
    for word in words:
        op, _, dtypes = word.partition(":")
        named = frozenset(filter(None, dtypes.split(",")))
        if unknown := sorted(named - set(BY_SHORT)):
            raise OpdbError(f"{word}: no data type {', '.join(unknown)}; there are {', '.join(BY_SHORT)}")
        parts.append({known(op): named})
    return merged(*parts)


def merged(*parts: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The union of several needs; an op without types in one of them gets all types."""
    ops = dict.fromkeys(op for part in parts for op in part)
    return {
        op: frozenset().union(*given) if all(given := [p[op] for p in parts if op in p]) else frozenset()
        for op in ops
    }


def write(
    catalog: Catalog,
    needed: Mapping[str, frozenset[str]],
    folder: Path,
    force: bool = False,
    target: str = HOST,
) -> Library:
    """Writes the sources and a Makefile, and for this machine also a CMakeLists.txt; ``target``: one of TARGETS.

    Raises OpdbError for an unknown target; see also codegen.c_library and source_folder.
    """
    if target not in TARGETS:
        raise OpdbError(f"no target {target!r}; there are {' and '.join(TARGETS)}")
    texts = c_library.folder(catalog, needed, target)
    types = {op: tuple(sorted(dtypes)) for op, dtypes in sorted(needed.items())}
    write_folder(folder, texts, MANIFEST, {"ops": types, "target": target}, force)
    return Library(folder, types, tuple(texts), target)


def build(library: Library, *variables: str) -> None:
    """Runs the folder's Makefile with ``variables``.

    Raises OpdbError without make or a compiler, or with the compiler's first complaint.
    """
    if library.target == HEXAGON:
        check_compiler()
        compiled(library.folder, "the library", ["make", "--silent", "-j2", *variables], HEXAGON_SECONDS)
    else:
        make(library.folder, "the library", *variables)
