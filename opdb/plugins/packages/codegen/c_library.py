"""The folder of a C library with some ops for some data types, for a program that embeds the kernels.

It has no Python, allocates nothing, and needs a C99 compiler: a Makefile and a CMakeLists.txt are next to the sources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opdb.codegen import c_sources
from opdb.codegen.artifact import sorted_ops, spec_path
from opdb.codegen.environment import render
from opdb.core.errors import OpdbError
from opdb.plugins.hexagon import codegen as hexagon
from opdb.spec.catalog import Catalog
from opdb.spec.each import kind_of
from opdb.spec.model import KernelDef

GENERATED = ("backends.h", "dtypes.h", "kernels.h", "ops.h", "ops.c")
RUNTIME_HEADERS = ("binding", "checked", "lists", "report", "runtime")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c")
CFLAGS = ("-std=c99", *(f for f in c_sources.CFLAGS if f not in ("-std=c11", "-fvisibility=hidden")),
          "-ffunction-sections", "-fdata-sections")  # fmt: skip
LDFLAGS = ("-shared", "-s", "-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,-z,defs", "-lm")
INCLUDES = ("-Iinclude", "-Isrc/kernels")
NAME = "opdb_kernels"
#: The targets of a library.
HOST, HEXAGON = TARGETS = ("host", "hexagon")


def folder(catalog: Catalog, needed: Mapping[str, frozenset[str]], target: str = HOST) -> dict[str, str]:
    """All files, path -> text: ``sources``, a Makefile, and a CMakeLists.txt; for HEXAGON, see opdb.plugins.hexagon.codegen."""
    texts = sources(catalog, needed)
    if target == HEXAGON:
        return hexagon.folder(texts, _names(catalog, needed), INCLUDES, NAME)
    view = {
        "name": NAME, "ops": _names(catalog, needed), "cflags": CFLAGS, "ldflags": LDFLAGS, "includes": INCLUDES,
        "sources": c_sources.sources(texts), "headers": sorted(p for p in texts if p.endswith(".h")),
    }  # fmt: skip
    texts["Makefile"] = render("c_library.mk.j2", **view)
    texts["CMakeLists.txt"] = render("c_library.cmake.j2", **view)
    return dict(sorted(texts.items()))


def sources(catalog: Catalog, needed: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Validators, shape inference, shims, and kernels of the ops in ``needed``: path -> text.

    ``needed``: op -> short names of the first input's data types that its kernel must take; empty: all that it supports.
    Raises OpdbError for an op without a kernel, and a type that its kernel lacks.
    """
    names = _names(catalog, needed)
    narrow = {name: _narrowed(catalog, name, needed[name]) for name in names}
    own = {name: catalog.own[name].model_copy(update={"kernel": narrow[name]}) for name in names}
    errata = {e.erratum: e for name in names for e in catalog.errata_of(name)}
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired, errata)
    texts = c_sources.formatted(c_sources.generated(catalog, part, names, GENERATED))
    texts |= c_sources.runtime(RUNTIME_HEADERS, RUNTIME_SOURCES)
    return texts | c_sources.kernels(part, names, c_sources.of_elements(_owners(catalog, narrow), part))


def _names(catalog: Catalog, needed: Mapping[str, frozenset[str]]) -> list[str]:
    return [name for name in sorted_ops(catalog) if name in needed]


def _narrowed(catalog: Catalog, name: str, dtypes: frozenset[str]) -> KernelDef:
    """The kernel of an op, only for ``dtypes``."""
    kernel = catalog.ops[name].kernel
    if kernel is None:
        raise OpdbError(f"{spec_path(name)}: kernel: the op has none, so that no library can run it")
    if unknown := sorted(dtypes - set(kernel.dtypes)):
        raise OpdbError(
            f"{spec_path(name)}: kernel: none for {', '.join(unknown)}; there is one for {', '.join(kernel.dtypes)}"
        )
    return _of_types(catalog, name, kernel, [d for d in kernel.dtypes if d in dtypes or not dtypes])


def _of_types(catalog: Catalog, name: str, kernel: KernelDef, dtypes: list[str]) -> KernelDef:
    """The kernel for these types; keeps only choices of its parameter that are meaningful for one of them."""
    each = kernel.each
    if kernel.by is not None and isinstance(each, dict):
        kinds = {kind_of(d) for d in dtypes}
        means = catalog.compiled(name).each
        each = {choice: text for choice, text in each.items() if kinds & set(means[choice])}
    return kernel.model_copy(update={"dtypes": dtypes, "each": each})


def _owners(catalog: Catalog, narrow: Mapping[str, KernelDef]) -> Catalog:
    """Narrows generated kernels in ``catalog`` to the kinds of numbers of the ops that use them."""
    used: dict[str, set[str]] = {}
    for kernel in narrow.values():
        used.setdefault(kernel.function, set()).update(kind_of(d) for d in kernel.dtypes)
    own = dict(catalog.own)
    for name, op in own.items():
        if op.kernel is not None and op.kernel.each is not None and op.kernel.function in used:
            dtypes = [d for d in op.kernel.dtypes if kind_of(d) in used[op.kernel.function]]
            own[name] = op.model_copy(update={"kernel": _of_types(catalog, name, op.kernel, dtypes)})
    return replace(catalog, own=own)
