"""QNN's C interface and chips (specs/abi/, specs/socs.yaml) -> C header, error names, table of SoCs.

Pure functions from the data of the YAML files to text; the text is formatted by its writer.  The part of
the header between ``CDEF_BEGIN`` and ``CDEF_END`` is plain declarations: runtime/qnn/build_cffi.py reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opdb.codegen.artifact import Artifact, Catalog
from opdb.codegen.environment import render
from opdb.errors import Problem, SpecError
from opdb.settings import specs_folder
from opdb.spec import parse_document

Data = Mapping[str, Any]
CDEF_BEGIN = "/* Declarations begin. */"
CDEF_END = "/* Declarations end. */"

#: What may reach C text: a type, a name.
TYPE = re.compile(r"(?:const )?[A-Za-z_][A-Za-z0-9_]*(?: \*{1,3})?(?:\[\d{1,3}\])?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def artifacts(catalog: Catalog) -> Iterable[Artifact]:
    """The header, the error names and the SoCs.  specs/abi/ is about QNN itself: not in the catalogue."""
    socs = [s.data() for s in catalog.socs.values()]
    header, errors = render_header(_abi("qnn")), render_errors(_abi("errors"))
    yield Artifact("generated/c/include/opdb/qnn_abi.h", header, ("specs/abi/qnn.yaml",), "c")
    yield Artifact("generated/python/constants/qnn_errors.py", errors, ("specs/abi/errors.yaml",), "python")
    yield Artifact("generated/python/constants/socs.py", render_socs(socs), ("specs/socs.yaml",), "python")


def _abi(name: str) -> Data:
    path = specs_folder() / "abi" / f"{name}.yaml"
    data: Data = parse_document(path.read_text(encoding="utf-8"), f"abi/{name}.yaml").data
    return data


def render_header(abi: Data, path: str = "specs/abi/qnn.yaml") -> str:
    """The C header of the interface: declarations, then an assertion for each size and offset.

    Raises SpecError for a name or a type that is not one in C.
    """
    _check_names(abi, path)
    view = {"abi": abi, "begin": CDEF_BEGIN, "end": CDEF_END, "asserts": layout(abi), "declare": declare}
    return render("qnn_abi.h.j2", **view)


def render_errors(errors: Data) -> str:
    """The Python module of error names by code."""
    return render("qnn_errors.py.j2", errors=errors)


def render_socs(socs: Sequence[Data]) -> str:
    """The Python module of chips, from the rows of socs.yaml."""
    return render("socs.py.j2", socs=sorted(socs, key=lambda row: str(row["chip"])))


def declare(type_: str, name: str) -> str:
    """A C declaration; ex) ("uint64_t[6]", "opaque") -> "uint64_t opaque[6]"."""
    base, bracket, size = type_.partition("[")
    gap = "" if base.endswith("*") else " "
    return f"{base}{gap}{name}{bracket}{size}"


def layout(abi: Data) -> Sequence[tuple[str, str, int]]:
    """What the header asserts: (struct, member or "" for the size of the whole, bytes)."""
    out: list[tuple[str, str, int]] = []
    interface = abi["interface"]
    for name, struct in {**abi["structs"], interface["name"]: interface}.items():
        out.append((name, "", struct["size"]))
        for field, place in struct["fields"].items():
            out.append((name, field, place["at"]))
            out += [(name, f"{field}.{member}", place["at"]) for member in place.get("union", {})]
    out += [("QnnInterface_Functions_t", f["name"], f["at"]) for f in interface["functions"]]
    return out


def _check_names(abi: Data, path: str) -> None:
    names = [*abi["typedefs"], *abi["enums"], *abi["constants"], *abi["structs"], *abi["callbacks"]]
    names += [n for values in abi["enums"].values() for n in values]
    types = list(abi["typedefs"].values())
    for struct in (*abi["structs"].values(), abi["interface"]):
        for field, place in struct["fields"].items():
            members = place.get("union") or {field: place["type"]}
            names += [field, *members]
            types += members.values()
    for function in abi["interface"]["functions"]:
        names.append(function["name"])
        types += function.get("args", [])
    for callback in abi["callbacks"].values():
        types += [callback["returns"], *callback["args"]]
    bad = [n for n in names if not NAME.fullmatch(n)] + [t for t in types if not TYPE.fullmatch(t)]
    if bad:
        raise SpecError([Problem(path, 0, 0, f"{text!r} is not a C name or type") for text in bad])
