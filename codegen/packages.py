"""Op packages for QNN backends: ops of packages other than QNN's own -> C for one library per package.

The generated validators judge, and the kernels behind their generated shims compute; code shared by all packages is
in runtime/src/packages.  Each package gets a generated table of its ops and the interface provider.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from opdb.codegen.artifact import Artifact, sorted_ops, spec_path
from opdb.codegen.constants import PACKAGE
from opdb.codegen.environment import render
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import Problem, SpecError
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Backend
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, Param, Slot
from opdb.spec.lang.nodes import is_enum
from opdb.spec.tiling import Tiling

#: Scalars arrive as doubles, in which 64-bit integers would lose bits; C has no type for 16-bit floats.
SCALARS = ("i8", "i16", "i32", "u8", "u16", "u32", "f32", "f64", "bool8")
LISTS = ("i8", "i32", "u8", "u32", "f32", "bool8")
MANY = 16  # the maximum number of tensors in a variadic slot
#: VTCM of the smallest chips in MB, and the divisor for one tile: other threads and ops need VTCM too.
SMALLEST_VTCM_MB, SHARES = 2, 8


def provider(package: str) -> str:
    """The symbol to pass to QNN with the library, by QNN's convention."""
    return f"{package}InterfaceProvider"


def of_catalog(catalog: Catalog) -> dict[str, list[str]]:
    """The ops of each package other than QNN's own, by package name."""
    found: dict[str, list[str]] = {}
    for name in sorted_ops(catalog):
        if catalog.ops[name].package != PACKAGE:
            found.setdefault(catalog.ops[name].package, []).append(name)
    return found


def c(catalog: Catalog) -> Iterable[Artifact]:
    """Renders generated/c/packages/<Package>.c for the first of ``made_for``.  Raises SpecError for ``faults``."""
    for package, ops in of_catalog(catalog).items():
        problems = [p for name in ops for p in faults(catalog, catalog.compiled(name))]
        if problems:
            raise SpecError(problems)
        if any(catalog.ops[name].kernel for name in ops):
            yield table(catalog, package, ops, made_for(catalog)[0])


def made_for(catalog: Catalog) -> list[Backend]:
    """The backends whose packages opdb builds."""
    return [b for b in catalog.backends.values() if b.op_packages and b.op_packages.by == "opdb"]


def faults(catalog: Catalog, op: CompiledOp, native: bool = False) -> list[Problem]:
    """The reasons an op cannot be in a package that opdb builds.

    ``native``: it is one of QNN's own ops under another package, so its type rows are about the vendor's kernels.
    """
    path, found = spec_path(op.name), []
    package = op.definition.package
    if package != PACKAGE and not re.fullmatch(r"[A-Za-z]\w*", package):
        found.append(
            f"package: {package!r} must be a name in C (letters, digits, _): it is part of the name of a function"
        )
    for backend in () if native else made_for(catalog):
        shown = types(backend)
        for row in op.type_rows.get(backend.name, ()):
            for slot, cell in row.cells.items():
                if bad := [d for d in cell if d not in shown]:
                    found.append(
                        f"backends.{backend.name}.dtypes: {row.id}: {slot}: QNN's {backend.name} backend shows op packages "
                        f"no tensors of {', '.join(bad)}; it shows {', '.join(shown)}"
                    )
    for p in op.params:
        base = p.definition.base
        if not is_enum(p.type) and base not in (LISTS if p.definition.dims else SCALARS):
            what = "a list" if p.definition.dims else "a scalar"
            found.append(
                f"params.{p.name}: {base}: an op package takes {what} of {', '.join(LISTS if p.definition.dims else SCALARS)}"
            )
    return [Problem(path, 0, 0, text) for text in found]


def types(backend: Backend) -> list[str]:
    """The tensor data types that a backend passes to packages."""
    return backend.op_packages.types if backend.op_packages else []


def table(
    catalog: Catalog,
    package: str,
    ops: Sequence[str],
    backend: Backend,
    native: frozenset[str] = frozenset(),
    vtcm_mb: int | None = None,
) -> Artifact:
    """Renders ``src/<Package>.c`` for ``backend``; ``native`` as in ``faults``, ``vtcm_mb``: the chip's VTCM."""
    chosen = [catalog.compiled(name) for name in ops]
    view = {
        "package": package,
        "provider": provider(package),
        "backend": backend.name,
        "tile_bytes": (vtcm_mb or SMALLEST_VTCM_MB) * 2**20 // SHARES,
        "shown": [BY_SHORT[d].enumerator for d in types(backend)],
        "ops": [
            {
                "name": op.name,
                "kernel": [BY_SHORT[d].enumerator for d in op.definition.kernel.dtypes],
                "params": [_param(p) for p in op.params],
                "target": _target(catalog, backend, op, op.name in native),
                "counts": (*_counts(op.inputs), *_counts(op.outputs)),
                "tiling": tiling_tables(op, op.definition.kernel.tiling),
                "five": str(any(_may_have_five(s) for s in (*op.inputs, *op.outputs))).lower(),
            }
            for op in chosen
            if op.definition.kernel
        ],
        "missing": [op.name for op in chosen if not op.definition.kernel],
    }
    text = render("op_package.c.j2", **view)
    return Artifact(f"generated/c/packages/{package}.c", text, tuple(spec_path(name) for name in ops), "c")


def _param(param: Param) -> tuple[str, str, int]:
    dims = param.definition.dims
    width = 0 if not dims else 1 if len(dims) == 1 else dims[-1] or 1
    return param.name, BY_SHORT[param.definition.base].enumerator, width


def _target(catalog: Catalog, backend: Backend, op: CompiledOp, native: bool) -> str:
    """The target that a package judges an op for: the backend if the spec has its type rows, else only the op definition.

    A package does not know the chip, so it uses the chip that the backend's facts were measured on.
    """
    if native or not op.type_rows.get(backend.name):
        return ".backend = OPDB_BACKEND_NONE"
    measured = backend.measured
    soc = catalog.socs[measured.soc] if measured and measured.soc else None
    fields: dict[str, object] = {"backend": f"OPDB_BACKEND_{backend.name}"}
    if measured:
        fields["sdk"] = sdk_number(measured.sdk)
    fields |= {name: int(value) for name, value in backend.reads(soc).items()}
    return ", ".join(f".{name} = {value}" for name, value in fields.items())


def _counts(slots: Sequence[Slot]) -> tuple[int, int]:
    """The minimum and maximum number of tensors of all slots together."""
    least = sum(0 if s.optional else s.definition.min if s.variadic else 1 for s in slots)
    return least, sum(max(MANY, s.definition.min) if s.variadic else 1 for s in slots)


def _may_have_five(slot: Slot) -> bool:
    """True if a tensor of the slot may have five dimensions."""
    shape = slot.definition.shape
    return not isinstance(shape, list) or len(shape) == 5 or any("..." in str(d) for d in shape)


def tiling_tables(op: CompiledOp, tiling: Tiling | None) -> dict[str, object] | None:
    """The tables of opdb/tiling.h, with axes counted from the last; None without a tiling."""
    if tiling is None:
        return None
    cuts = [c for c in reversed(tiling.axes) if not c.rest]
    inputs = []
    for slot in op.inputs:
        parts = tiling.inputs.get(slot.name, [])
        rest_whole = not (parts and parts[0].rest and parts[0].kind == "part")
        rows = [
            (str(p.kind == "whole").lower(), i if p.of is None else -1 - p.of, p.scale, p.before, p.after)
            for i, p in enumerate(reversed(parts))
            if not p.rest
        ]
        inputs.append({"slot": slot.name, "parts": rows, "rest_whole": str(rest_whole).lower()})
    return {
        "multiples": [c.multiple for c in cuts],
        "rest": tiling.axes[0].multiple if tiling.axes[0].rest else 0,
        "inputs": inputs,
    }
