"""Self-contained folders of C for some ops: generated files, the runtime, their kernels.

They need nothing but a C compiler: what opdb builds here can be built elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from opdb.codegen import constants, formatters, targets, validators
from opdb.codegen import kernels as generated_kernels
from opdb.codegen.artifact import Artifact, spec_path, with_header
from opdb.core.errors import OpdbError
from opdb.spec.catalog import Catalog

KERNELS = "/kernels.h"
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


def sources(paths: Iterable[str]) -> list[str]:
    """The C files among ``paths``, in compilation order."""
    return sorted(p for p in paths if p.endswith(".c"))


def generated(
    catalog: Catalog, part: Catalog, names: Sequence[str], shared: Sequence[str]
) -> dict[str, Artifact]:
    """The generated files of the ops ``names`` of ``part``, and the ``shared`` files for all of them together.

    The kernel header covers the whole ``catalog``, because a kernel file can have kernels of several ops.
    """
    made = {}
    registry = [
        whole if whole.path.endswith(KERNELS) else own
        for whole, own in zip(validators.c_registry(catalog), validators.c_registry(part), strict=True)
    ]
    for artifact in (*constants.c(part), *targets.qnn_abi(), *registry):
        if artifact.path.rpartition("/")[2] in shared:
            made[artifact.path.removeprefix("generated/c/")] = artifact
    for name in names:
        for artifact in validators.c(part, name):
            made[artifact.path.replace("generated/c/src/", "src/ops/")] = artifact
    return made


def of_elements(catalog: Catalog, part: Catalog) -> dict[str, str]:
    """The generated kernels that ops of ``part`` use, from any op of ``catalog``."""
    wanted = {op.kernel.function for op in part.ops.values() if op.kernel is not None}
    named = [n for n, op in catalog.ops.items() if op.kernel is not None and op.kernel.function in wanted]
    made = [artifact for name in named for artifact in generated_kernels.c(catalog, name)]
    return formatted({a.path.replace("generated/c/kernels/", "src/kernels/"): a for a in made})


def formatted(made: Mapping[str, Artifact]) -> dict[str, str]:
    """Text by path, formatted by clang-format, with the header line."""
    texts = formatters.format_all(list(made.values()))
    return {
        path: with_header(Artifact(a.path, text, a.inputs, a.language))
        for (path, a), text in zip(made.items(), texts, strict=True)
    }


def runtime_folder() -> Path:
    """The folder of the runtime's C: include and src."""
    return Path(str(files("opdb.runtime")))


def runtime(headers: Sequence[str], sources: Sequence[str]) -> dict[str, str]:
    """Files of the runtime: headers by name, sources by path below runtime/src."""
    root = runtime_folder()
    found = {f"include/opdb/{name}.h": root / "include" / "opdb" / f"{name}.h" for name in headers}
    found |= {f"src/{name}": root / "src" / name for name in sources}
    return {path: file.read_text(encoding="utf-8") for path, file in found.items()}


def of_plugin(plugin: str, place: str, names: Iterable[str]) -> dict[str, str]:
    """Files of a plug-in's folder ``c``, by their path in the written folder: below ``place``, e.g. src/hexagon."""
    root = plugin_folder(plugin)
    return {f"{place}/{name}": (root / name).read_text(encoding="utf-8") for name in names}


def plugin_folder(plugin: str) -> Path:
    """The folder of a plug-in's C."""
    return Path(str(files(f"opdb.plugins.{plugin}"))) / "c"


def kernels(
    part: Catalog, names: Sequence[str], computed: Mapping[str, str], given: Sequence[Path] = ()
) -> dict[str, str]:
    """The files that define the ops' kernels, and the headers and helpers they include.

    ``computed``: generated kernels by path.  ``given``: C files to search first.  Raises OpdbError for an op without a
    kernel and for an unreadable file.
    """
    own = sorted((runtime_folder() / "src" / "kernels").glob("*.[ch]"))
    known = {path.rpartition("/")[2]: text for path, text in computed.items()}
    known |= {p.name: _read(p) for p in (*own, *given)}
    wanted: list[str] = []
    for name in names:
        kernel = part.ops[name].kernel
        if kernel is None:
            raise OpdbError(f"{spec_path(name)}: kernel: the op has none and could not run")
        definition = re.compile(rf"^opdb_status {kernel.function}\([^;{{]*\{{", re.MULTILINE)
        places = [f for f in (*(p.name for p in given), *known) if definition.search(known[f])]
        if not places:
            raise OpdbError(
                f"{name}: no C file defines its kernel {kernel.function}; write runtime/src/kernels/ or name the "
                "file with --kernel"
            )
        wanted += [places[0]] + ["in_floats.c"] * (kernel.computes is not None)
    return {f"src/kernels/{name}": known[name] for name in sorted(included(wanted, known))}


def included(wanted: Sequence[str], known: Mapping[str, str]) -> set[str]:
    """``wanted``, all files they include, and the C file beside each included header."""
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
