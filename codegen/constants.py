"""Names and numbers: ops, parameters, enum values, backends and data types, for Python and C.

The Python classes have the names and attributes of ``qnn_constants`` in ExecuTorch 1.4.1, so that they can
stand in for it; the C macros have the names of QnnOpDef.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from opdb.codegen.artifact import Artifact, Catalog, all_specs, sorted_ops
from opdb.codegen.environment import render
from opdb.dtypes import DTYPES
from opdb.model import OpDef

#: Classes of ExecuTorch whose names are not "Op" and QNN's name of the op.
ALIASES = {"OpGatherND": "OpGatherNd", "OpUnpack": "OpUnPack"}


@dataclass(frozen=True)
class EnumView:
    name: str  # ex) InterpolationMode
    macro: str  # ex) QNN_OP_RESIZE_INTERPOLATION_MODE
    values: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class OpView:
    op: str  # ex) LayerNorm
    package: str
    name: str  # ex) OpLayerNorm
    macro: str  # ex) QNN_OP_LAYER_NORM
    params: tuple[tuple[str, str], ...]  # name and macro
    enums: tuple[EnumView, ...]


def op_macro(op: str) -> str:
    """The name of the op in QnnOpDef.h; ex) Conv2d -> QNN_OP_CONV_2D, Col2Im -> QNN_OP_COL2_IM."""
    words = re.sub(r"(?<=\d)D(?=[A-Z]|$)", "d", op)  # Correlation1D
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[a-z])(?=\dd)", "_", words)
    return f"QNN_OP_{words.upper()}"


def op_view(op: OpDef) -> OpView:
    macro = op_macro(op.op)
    enums = tuple(
        EnumView(
            "".join(w.capitalize() for w in name.split("_")), f"{macro}_{name.upper()}", tuple(p.enum.items())
        )
        for name, p in op.params.items()
        if p.enum
    )
    params = tuple((name, f"{macro}_PARAM_{name.upper()}") for name in op.params)
    return OpView(op.op, op.package, f"Op{op.op}", macro, params, enums)


def python(catalog: Catalog) -> Iterable[Artifact]:
    """constants/ops.py and constants/backends.py."""
    ops = [op_view(catalog.ops[name]) for name in sorted_ops(catalog)]
    known = {op.name for op in ops}
    aliases = [(alias, name) for alias, name in sorted(ALIASES.items()) if name in known]
    view = {"ops": ops, "aliases": aliases, "packages": _packages(ops)}
    yield Artifact(
        "generated/python/constants/ops.py", render("ops.py.j2", **view), all_specs(catalog), "python"
    )
    text = render("backends.py.j2", backends=list(catalog.backends.values()))
    yield Artifact("generated/python/constants/backends.py", text, ("specs/backends.yaml",), "python")


def c(catalog: Catalog) -> Iterable[Artifact]:
    """include/opdb/dtypes.h, backends.h and op_names.h."""
    ops = [op_view(catalog.ops[name]) for name in sorted_ops(catalog)]
    for name, view, inputs in (
        ("dtypes", {"dtypes": DTYPES}, ("opdb/dtypes.py",)),
        ("backends", {"backends": list(catalog.backends.values())}, ("specs/backends.yaml",)),
        ("op_names", {"ops": ops, "packages": _packages(ops)}, all_specs(catalog)),
    ):
        text = render(f"{name}.h.j2", **view)
        yield Artifact(f"generated/c/include/opdb/{name}.h", text, inputs, "c")


def _packages(ops: list[OpView]) -> list[tuple[str, str]]:
    """Op packages and their macros; ex) ("qti.aisw", "QNN_OP_PACKAGE_NAME_QTI_AISW")."""
    names = sorted({op.package for op in ops} | {"qti.aisw"})
    return [(name, "QNN_OP_PACKAGE_NAME_" + re.sub(r"\W", "_", name).upper()) for name in names]
