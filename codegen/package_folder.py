"""The folder of an op package: generated files of its ops, the runtime, the kernels, a Makefile.

It needs nothing but a C compiler: what opdb builds here can be built elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from opdb.codegen import constants, formatters, targets, validators
from opdb.codegen import kernels as generated_kernels
from opdb.codegen.artifact import Artifact, Catalog, sorted_ops, spec_path, with_header
from opdb.codegen.environment import render
from opdb.codegen.packages import faults, table
from opdb.errors import OpdbError, SpecError

GENERATED_HEADERS = ("backends.h", "dtypes.h", "kernels.h", "ops.h", "qnn_abi.h", "qnn_op_package.h")
RUNTIME_HEADERS = ("binding", "checked", "lists", "op_package", "report", "runtime")
RUNTIME_SOURCES = ("binding.c", "lists.c", "report.c", "packages/op_package.c", "packages/package_view.c",
                   "packages/package_view.h")  # fmt: skip
CFLAGS = (
    "-std=c11",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
)
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
    part = Catalog(own, catalog.bases, {}, catalog.backends, catalog.socs, catalog.retired)
    problems = [p for name in names for p in faults(part.compiled(name))]
    if problems:
        raise SpecError(problems)
    computed = _formatted(
        {a.path.replace("generated/c/kernels/", "src/kernels/"): a for a in _of_elements(catalog, part)}
    )
    texts = _generated(part, package, names) | _runtime() | _kernels(part, names, kernels, computed)
    view = {"sources": sources(texts), "headers": sorted(p for p in texts if p.endswith(".h"))}
    texts["Makefile"] = render(
        "op_package.mk.j2", package=package, library=library(package), cflags=CFLAGS, ldflags=LDFLAGS,
        includes=INCLUDES, **view,
    )  # fmt: skip
    return package, dict(sorted(texts.items()))


def sources(paths: Iterable[str]) -> list[str]:
    """The C files among ``paths``, in the order in which they are compiled."""
    return sorted(p for p in paths if p.endswith(".c"))


def _package_of(catalog: Catalog, ops: Sequence[str]) -> str:
    packages = {catalog.ops[name].package for name in ops}
    if len(packages) > 1:
        named = ", ".join(f"{name} ({catalog.ops[name].package})" for name in ops)
        raise OpdbError(f"one package at a time: {named}; name the package with --package")
    return packages.pop()


def _generated(part: Catalog, package: str, names: Sequence[str]) -> dict[str, str]:
    """What is generated for these ops alone, formatted."""
    made = {f"src/{package}.c": table(part, package, names)}
    for artifact in (*constants.c(part), *targets.qnn_abi(part), *validators.c_registry(part)):
        if artifact.path.rpartition("/")[2] in GENERATED_HEADERS:
            made[artifact.path.removeprefix("generated/c/")] = artifact
    for name in names:
        for artifact in validators.c(part, name):
            made[artifact.path.replace("generated/c/src/", "src/ops/")] = artifact
    return _formatted(made)


def _of_elements(catalog: Catalog, part: Catalog) -> list[Artifact]:
    """The generated kernels that ops of ``part`` name, their own or those of another op."""
    wanted = {op.kernel.function for op in part.ops.values() if op.kernel is not None}
    named = [n for n, op in catalog.ops.items() if op.kernel is not None and op.kernel.function in wanted]
    return [artifact for name in named for artifact in generated_kernels.c(catalog, name)]


def _formatted(made: Mapping[str, Artifact]) -> dict[str, str]:
    texts = formatters.format_all(list(made.values()))
    return {
        path: with_header(Artifact(a.path, text, a.inputs, a.language))
        for (path, a), text in zip(made.items(), texts, strict=True)
    }


def _runtime_folder() -> Path:
    return Path(str(files("opdb.runtime")))


def _runtime() -> dict[str, str]:
    root = _runtime_folder()
    found = {f"include/opdb/{name}.h": root / "include" / "opdb" / f"{name}.h" for name in RUNTIME_HEADERS}
    found |= {f"src/{name}": root / "src" / name for name in RUNTIME_SOURCES}
    return {path: file.read_text(encoding="utf-8") for path, file in found.items()}


def _kernels(
    part: Catalog, names: Sequence[str], given: Sequence[Path], computed: Mapping[str, str]
) -> dict[str, str]:
    """The files that define the ops' kernels, and the headers and helpers that those include.

    ``computed``: those that are generated, by path.
    """
    own = sorted((_runtime_folder() / "src" / "kernels").glob("*.[ch]"))
    known = {path.rpartition("/")[2]: text for path, text in computed.items()}
    known |= {p.name: _read(p) for p in (*own, *given)}
    wanted: list[str] = []
    for name in names:
        kernel = part.ops[name].kernel
        if kernel is None:
            raise OpdbError(f"{spec_path(name)}: kernel: the op has none; a package without it could not run")
        definition = re.compile(rf"^opdb_status {kernel.function}\([^;{{]*\{{", re.MULTILINE)
        places = [f for f in (*(p.name for p in given), *known) if definition.search(known[f])]
        if not places:
            raise OpdbError(
                f"{name}: no C file defines its kernel {kernel.function}; write runtime/src/kernels/ or name the "
                "file with --kernel"
            )
        wanted += [places[0]] + ["in_floats.c"] * (kernel.computes is not None)
    return {f"src/kernels/{name}": known[name] for name in sorted(_included(wanted, known))}


def _included(wanted: Sequence[str], known: Mapping[str, str]) -> set[str]:
    """``wanted``, what these files include, and the C file beside each such header."""
    found: set[str] = set()
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in found or name not in known:
            continue
        found.add(name)
        headers = re.findall(r'^#include "([^"/]+\.h)"', known[name], re.MULTILINE)
        todo += [*headers, *(h.removesuffix(".h") + ".c" for h in headers)]
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OpdbError(
            f"{path}: cannot read this kernel: {getattr(error, 'strerror', None) or error}"
        ) from None
