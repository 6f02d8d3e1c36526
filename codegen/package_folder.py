"""The folder of an op package: generated files of its ops, the runtime, the kernels, a Makefile.

It needs nothing but a C compiler: what opdb builds here can be built elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opdb.codegen import c_sources, constants
from opdb.codegen.artifact import sorted_ops
from opdb.codegen.c_sources import CFLAGS, sources
from opdb.codegen.environment import render
from opdb.codegen.packages import faults, table
from opdb.errors import OpdbError, SpecError
from opdb.spec.catalog import Catalog

GENERATED_HEADERS = ("backends.h", "dtypes.h", "kernels.h", "ops.h", "qnn_abi.h", "qnn_op_package.h")
RUNTIME_HEADERS = ("binding", "checked", "lists", "op_package", "report", "runtime")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c", "packages/op_package.c", "packages/package_view.c",
                   "packages/package_view.h")  # fmt: skip
LDFLAGS = ("-shared", "-s", "-Wl,--build-id=none", "-Wl,-z,defs", "-lm")
INCLUDES = ("-Iinclude", "-Isrc/kernels", "-Isrc/packages")


def library(package: str) -> str:
    """Where the library of a package is, below its folder."""
    return f"libs/cpu/libQnn{package}.so"


def folder(
    catalog: Catalog, ops: Sequence[str], package: str | None = None, kernels: Sequence[Path] = ()
) -> tuple[str, dict[str, str]]:
    """The name of the package with ``ops``, and all its files: text by path below the package's folder.

    ``package`` renames it; without, it is the one that the specs of all ``ops`` name.  ``kernels`` are C files
    to be looked at before opdb's own.  Raises OpdbError: ops of several packages or of QNN's own, an op without
    a kernel; SpecError for what cannot be in a CPU package.
    """
    package = package or _package_of(catalog, ops)
    if package == constants.PACKAGE:
        raise OpdbError(
            f"{', '.join(ops)}: in QNN's own package {package}, which every backend has; to have it in a package of "
            "your own, name that with --package"
        )
    names = [name for name in sorted_ops(catalog) if name in set(ops)]
    own = {name: catalog.own[name].model_copy(update={"package": package}) for name in names}
    errata = {e.erratum: e for name in names for e in catalog.errata_of(name)}
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired, errata)
    problems = [p for name in names for p in faults(part, part.compiled(name))]
    if problems:
        raise SpecError(problems)
    made = {f"src/{package}.c": table(part, package, names)}
    made |= c_sources.generated(catalog, part, names, GENERATED_HEADERS)
    texts = c_sources.formatted(made) | c_sources.runtime(RUNTIME_HEADERS, RUNTIME_SOURCES)
    texts |= c_sources.kernels(part, names, c_sources.of_elements(catalog, part), kernels)
    view = {"sources": sources(texts), "headers": sorted(p for p in texts if p.endswith(".h"))}
    texts["Makefile"] = render(
        "op_package.mk.j2", package=package, library=library(package), cflags=CFLAGS, ldflags=LDFLAGS,
        includes=INCLUDES, **view,
    )  # fmt: skip
    return package, dict(sorted(texts.items()))


def _package_of(catalog: Catalog, ops: Sequence[str]) -> str:
    packages = {catalog.ops[name].package for name in ops}
    if len(packages) > 1:
        named = ", ".join(f"{name} ({catalog.ops[name].package})" for name in ops)
        raise OpdbError(f"one package at a time: {named}; name the package with --package")
    return packages.pop()
