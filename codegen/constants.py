"""Names and numbers of ops, parameters, enum values, backends, and data types, for Python and C.

Covers all ops that QNN documents, including those without a spec.  The Python classes have the names and
attributes of ``qnn_constants`` in ExecuTorch 1.4.1, so that they can replace it; the C macros have the names
of QnnOpDef.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opdb.catalog import facts as reference
from opdb.codegen.artifact import Artifact, all_specs, backend_paths
from opdb.codegen.environment import render
from opdb.codegen.evidence import facts
from opdb.codegen.rules import need_name
from opdb.core.dtypes import DTYPES
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Backend, preferred
from opdb.spec.catalog import Catalog
from opdb.spec.sdks import sdks_of

#: QNN's own op package.
PACKAGE = "qti.aisw"
#: Classes of ExecuTorch whose names are not "Op" plus QNN's op name.
ALIASES = {"OpGatherND": "OpGatherNd", "OpPRelu": "OpPrelu", "OpUnpack": "OpUnPack"}


@dataclass(frozen=True)
class EnumView:
    name: str  # e.g. InterpolationMode
    macro: str  # e.g. QNN_OP_RESIZE_INTERPOLATION_MODE
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class OpView:
    op: str  # e.g. LayerNorm
    package: str
    name: str  # e.g. OpLayerNorm
    macro: str  # e.g. QNN_OP_LAYER_NORM
    params: tuple[tuple[str, str], ...]  # name and macro
    enums: tuple[EnumView, ...]


def op_macro(op: str) -> str:
    """The op's macro in QnnOpDef.h, e.g. Conv2d -> QNN_OP_CONV_2D, Col2Im -> QNN_OP_COL2_IM."""
    words = re.sub(r"(?<=\d)D(?=[A-Z]|$)", "d", op)  # Correlation1D
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=\dd)", "_", words)
    return f"QNN_OP_{words.upper()}"


def op_views(catalog: Catalog) -> list[OpView]:
    """Every op of the documents and the catalog, by name; the catalog takes precedence.  Cached."""
    return catalog.once("op views", lambda: _op_views(catalog))


def _op_views(catalog: Catalog) -> list[OpView]:
    params: dict[str, dict[str, Mapping[str, int]]] = {}
    for name in reference.documented_ops():
        params[name] = {p.name: p.enum for p in reference.documented_op(name).params}
    for name, op in catalog.ops.items():
        params.setdefault(name, {}).update({n: p.enum for n, p in op.params.items()})
    packages = {name: op.package for name, op in catalog.ops.items()}
    names = sorted(params, key=lambda name: (name.lower(), name))
    return [_view(name, packages.get(name, PACKAGE), params[name]) for name in names]


def _view(op: str, package: str, params: Mapping[str, Mapping[str, int]]) -> OpView:
    macro = op_macro(op)
    enums = tuple(
        EnumView(_camel(name), f"{macro}_{name.upper()}", tuple(values.items()))
        for name, values in params.items()
        if values
    )
    names = tuple((name, f"{macro}_PARAM_{name.upper()}") for name in params)
    return OpView(op, package, f"Op{op}", macro, names, enums)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def python(catalog: Catalog) -> Iterable[Artifact]:
    """Renders constants/ops.py, constants/backends.py, and constants/sdks.py."""
    ops = op_views(catalog)
    known = {op.name for op in ops}
    aliases = [(alias, name) for alias, name in sorted(ALIASES.items()) if name in known]
    view = {"ops": ops, "aliases": aliases, "packages": _packages(ops)}
    yield Artifact(
        "generated/python/constants/ops.py", render("ops.py.j2", **view), all_specs(catalog), "python"
    )
    backends = list(catalog.backends.values())
    view = {"backends": [(b.name, _fields(b)) for b in backends], "preferred": preferred(backends)}
    text = render("backends.py.j2", **view, context=_context(catalog))
    yield Artifact("generated/python/constants/backends.py", text, backend_paths(catalog), "python")
    stored = facts(catalog)
    versions = sdks_of(catalog) if stored is None else stored.sdks
    sdks = dict.fromkeys(".".join(v.split(".")[:2]) for v in versions)
    measured = [b.measured.sdk for b in backends if b.measured]
    default = max(measured, key=sdk_number, default=next(reversed(sdks), ""))
    text = render("sdks.py.j2", sdks=list(sdks), default=default)
    yield Artifact(
        "generated/python/constants/sdks.py", text, (*all_specs(catalog), *backend_paths(catalog)), "python"
    )


def c(catalog: Catalog) -> Iterable[Artifact]:
    """Renders include/opdb/dtypes.h, backends.h, and op_names.h."""
    ops = op_views(catalog)
    for name, view, inputs in (
        ("dtypes", {"dtypes": DTYPES}, ("opdb/core/dtypes.py",)),
        (
            "backends",
            {
                "backends": list(catalog.backends.values()),
                "context": _context(catalog),
                "need_name": need_name,
            },
            backend_paths(catalog),
        ),
        ("op_names", {"ops": ops, "packages": _packages(ops)}, _sources(catalog)),
    ):
        text = render(f"{name}.h.j2", **view)
        yield Artifact(f"generated/c/include/opdb/{name}.h", text, inputs, "c")


def _fields(b: Backend) -> dict[str, object]:
    """The fields of a generated record that differ from their defaults."""
    library, measured, packages = b.library, b.measured, b.op_packages
    fields: dict[str, object] = {
        "name": b.name,
        "about": b.about,
        "letter": b.letter,
        "id": b.id,
        "supplement": b.supplement,
        "context": b.context,
        "chip_fields": b.chip_fields,
        "oldest_arch": b.oldest and b.oldest.arch,
        "older": b.oldest and b.oldest.why,
        "needs": {need.has: need.why for need in b.needs.values()},
        "chips": tuple(b.chips),
        "floats": None if b.floats == "f32" else b.floats,
        "programs": tuple(b.programs),
        "library": library and library.file,
        "x86": library and library.x86,
        "refusal": library and library.refusal,
        "sdk": measured and measured.sdk,
        "soc": measured and measured.soc,
        "op_packages": packages and packages.by,
        "op_packages_made": packages and packages.made,
        "op_packages_link": (packages and packages.links) or None,
    }
    return {name: value for name, value in fields.items() if value not in (None, {}, ())}


def _context(catalog: Catalog) -> dict[str, str]:
    """The chip properties that rules of any backend may read, with their types."""
    return {name: t for b in catalog.backends.values() for name, t in b.context.items()}


def _sources(catalog: Catalog) -> tuple[str, ...]:
    facts = ("opdb/reference/data/qnn-2.25.0.json", "opdb/reference/data/qnn-newer.json")
    return (*all_specs(catalog), *facts)


def _packages(ops: list[OpView]) -> list[tuple[str, str]]:
    """Op packages and their macros, e.g. ("qti.aisw", "QNN_OP_PACKAGE_NAME_QTI_AISW")."""
    names = sorted({op.package for op in ops} | {PACKAGE})
    return [(name, "QNN_OP_PACKAGE_NAME_" + re.sub(r"\W", "_", name).upper()) for name in names]
