"""Op packages for QNN's CPU backend: ops of packages other than QNN's own -> C that becomes one library each.

Judging is done by the generated validators, computing by the kernels behind their generated shims; what all
packages share is runtime/src/packages.  Generated for each package is the table of its ops and the interface
provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from opdb.codegen.artifact import Artifact, sorted_ops, spec_path
from opdb.codegen.constants import PACKAGE
from opdb.codegen.environment import render
from opdb.dtypes import BY_SHORT
from opdb.errors import Problem, SpecError
from opdb.lang.nodes import is_enum
from opdb.spec.catalog import Catalog
from opdb.spec.compiled import CompiledOp

#: The types of tensors that QNN's CPU backend shows to packages (CPU-0330); ops with others are refused.
SHOWN = ("i8", "i32", "u8", "u32", "f32", "bool8", "uq8")
#: Scalars arrive as doubles: 64-bit integers would lose bits; and there is no C type for 16-bit floats.
SCALARS = ("i8", "i16", "i32", "u8", "u16", "u32", "f32", "f64", "bool8")
LISTS = ("i8", "i32", "u8", "u32", "bool8")


def provider(package: str) -> str:
    """The symbol that QNN is given with the library: QNN's own convention."""
    return f"{package}InterfaceProvider"


def of_catalog(catalog: Catalog) -> dict[str, list[str]]:
    """The ops of each package that is not QNN's own, by its name."""
    found: dict[str, list[str]] = {}
    for name in sorted_ops(catalog):
        if catalog.ops[name].package != PACKAGE:
            found.setdefault(catalog.ops[name].package, []).append(name)
    return found


def c(catalog: Catalog) -> Iterable[Artifact]:
    """generated/c/packages/<Package>.c.  Raises SpecError for ops that cannot be in a CPU package."""
    for package, ops in of_catalog(catalog).items():
        problems = [p for name in ops for p in faults(catalog, catalog.compiled(name))]
        if problems:
            raise SpecError(problems)
        if any(catalog.ops[name].kernel for name in ops):
            yield table(catalog, package, ops)


def faults(catalog: Catalog, op: CompiledOp) -> list[Problem]:
    """Why an op cannot be in a package of a backend whose packages opdb makes."""
    path, found = spec_path(op.name), []
    package = op.definition.package
    if package != PACKAGE and not re.fullmatch(r"[A-Za-z]\w*", package):
        found.append(
            f"package: {package!r} must be a name in C (letters, digits, _): it is part of the name of a function"
        )
    made = [b.name for b in catalog.backends.values() if b.op_packages and b.op_packages.by == "opdb"]
    for row in (row for backend in made for row in op.type_rows.get(backend, ())):
        backend = row.id.partition(".")[0]
        for slot, cell in row.cells.items():
            if bad := [d for d in cell if d not in SHOWN]:
                found.append(
                    f"backends.{backend}.dtypes: {row.id}: {slot}: QNN's {backend} backend shows op packages no tensors of "
                    f"{', '.join(bad)}; it shows {', '.join(SHOWN)}"
                )
    for p in op.params:
        base = p.definition.base
        if not is_enum(p.type) and base not in (LISTS if p.definition.dims else SCALARS):
            what = "a list" if p.definition.dims else "a scalar"
            found.append(
                f"params.{p.name}: {base}: an op package takes {what} of {', '.join(LISTS if p.definition.dims else SCALARS)}"
            )
    return [Problem(path, 0, 0, text) for text in found]


def table(catalog: Catalog, package: str, ops: Sequence[str]) -> Artifact:
    chosen = [catalog.compiled(name) for name in ops]
    view = {
        "package": package,
        "provider": provider(package),
        "ops": [
            {
                "name": op.name,
                "kernel": [BY_SHORT[d].enumerator for d in op.definition.kernel.dtypes],
                "params": [(p.name, BY_SHORT[p.definition.base].enumerator) for p in op.params],
            }
            for op in chosen
            if op.definition.kernel
        ],
        "missing": [op.name for op in chosen if not op.definition.kernel],
    }
    text = render("op_package.c.j2", **view)
    return Artifact(f"generated/c/packages/{package}.c", text, tuple(spec_path(name) for name in ops), "c")
