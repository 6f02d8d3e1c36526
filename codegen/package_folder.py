"""The folder of an op package: generated files of its ops, the runtime, the kernels, and a Makefile.

It needs nothing but a C compiler: what opdb builds here can be built elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opdb.codegen import c_sources, constants
from opdb.codegen.artifact import sorted_ops
from opdb.codegen.c_sources import CFLAGS
from opdb.codegen.environment import render
from opdb.codegen.packages import faults, table
from opdb.core.errors import OpdbError, SpecError
from opdb.generated.constants.backends import BACKENDS, PACKAGED
from opdb.spec.catalog import Catalog

GENERATED_HEADERS = ("backends.h", "dtypes.h", "kernels.h", "ops.h", "qnn_abi.h", "qnn_op_package.h")
RUNTIME_HEADERS = ("binding", "checked", "lists", "op_package", "report", "runtime", "tiling")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c", "packages/config_view.c", "packages/op_package.c",
                   "packages/op_view.c", "packages/op_view.h", "packages/package.h")  # fmt: skip
#: For packages that call functions of the backend's library.
LINKED_HEADERS = ("qhpi",)
LINKED_SOURCES = ("packages/htp.h", "packages/htp_description.c", "packages/htp_description.h", "packages/htp_nodes.c",
                  "packages/htp_run.c", "packages/htp_tiles.c", "packages/stand_in/htp.c", "packages/tiling.c")  # fmt: skip
STAND_IN = "src/packages/stand_in/"
LDFLAGS = ("-shared", "-s", "-Wl,--build-id=none", "-Wl,-z,defs", "-lm")
INCLUDES = ("-Iinclude", "-Isrc/kernels", "-Isrc/packages")


@dataclass(frozen=True)
class StandIn:
    """A library to link against instead of the backend's: it has the same function names with empty bodies."""

    source: str
    library: str  # its path below the folder
    flags: tuple[str, ...]  # flags to build it
    link: tuple[str, ...]  # flags to link the package


def library(package: str, backend: str) -> str:
    """The path of a package's library below its folder."""
    return f"libs/{backend.lower()}/libQnn{package}.so"


def stand_in(backend: str) -> StandIn | None:
    """The stand-in for a backend's library; None if its packages call no functions of the library."""
    record = BACKENDS[backend]
    if not record.op_packages_link or record.library is None:
        return None
    made = f"build/{record.library}"
    flags = ("-shared", "-s", "-Wl,--build-id=none", f"-Wl,-soname,{record.library}", "-fvisibility=default")
    return StandIn(
        f"{STAND_IN}{backend.lower()}.c",
        made,
        flags,
        ("-Lbuild", f"-l:{record.library}", "-Wl,--no-as-needed"),
    )


def sources(paths: Iterable[str]) -> list[str]:
    """The C files of a package among ``paths``, in compilation order, without stand-ins."""
    return [p for p in c_sources.sources(paths) if not p.startswith(STAND_IN)]


def folder(
    catalog: Catalog,
    ops: Sequence[str],
    package: str | None = None,
    kernels: Sequence[Path] = (),
    backend: str = PACKAGED,
    vtcm_mb: int | None = None,
) -> tuple[str, dict[str, str]]:
    """Returns the name of the package with ``ops`` for ``backend``, and its files: text by path below its folder.

    ``package`` renames it; by default all ``ops`` must name the same one in their specs.  ``kernels`` are C files to
    search before opdb's own.  ``vtcm_mb``: VTCM of the chip that tiles are sized for, by default the smallest.
    Raises OpdbError for ops of several packages or of QNN's own, and for an op without a kernel; SpecError for ops that
    cannot be in a package.
    """
    package = package or _package_of(catalog, ops)
    if package == constants.PACKAGE:
        raise OpdbError(
            f"{', '.join(ops)}: in QNN's own package {package}, which every backend has; to have it in a package of "
            "your own, name that with --package"
        )
    names = [name for name in sorted_ops(catalog) if name in set(ops)]
    own = {name: catalog.own[name].model_copy(update={"package": package}) for name in names}
    native = frozenset(name for name in names if catalog.ops[name].package == constants.PACKAGE)
    errata = {e.erratum: e for name in names for e in catalog.errata_of(name)}
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired, errata)
    problems = [p for name in names for p in faults(part, part.compiled(name), name in native)]
    if problems:
        raise SpecError(problems)
    made = {f"src/{package}.c": table(part, package, names, part.backends[backend], native, vtcm_mb)}
    made |= c_sources.generated(catalog, part, names, GENERATED_HEADERS)
    linked = stand_in(backend)
    of_runtime = (*RUNTIME_SOURCES, f"packages/{backend.lower()}_package.c")
    texts = c_sources.formatted(made) | c_sources.runtime(RUNTIME_HEADERS, of_runtime)
    if linked:
        texts |= c_sources.runtime(LINKED_HEADERS, LINKED_SOURCES)
    texts |= c_sources.kernels(part, names, c_sources.of_elements(catalog, part), kernels)
    view = {"sources": sources(texts), "headers": sorted(p for p in texts if p.endswith(".h"))}
    texts["Makefile"] = render(
        "op_package.mk.j2",
        title=f'The op package {package} for QNN\'s {backend} backend, written by "opdb package qnn".',
        library=library(package, backend),
        cflags=CFLAGS,
        ldflags=LDFLAGS,
        includes=INCLUDES,
        linked=linked,
        **view,
    )
    return package, dict(sorted(texts.items()))


def _package_of(catalog: Catalog, ops: Sequence[str]) -> str:
    packages = {catalog.ops[name].package for name in ops}
    if len(packages) > 1:
        named = ", ".join(f"{name} ({catalog.ops[name].package})" for name in ops)
        raise OpdbError(f"one package at a time: {named}; name the package with --package")
    return packages.pop()
