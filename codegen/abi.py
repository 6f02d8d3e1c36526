"""QNN's C interface and chips (specs/abi/, specs/socs.yaml) -> C header, error names, table of SoCs.

Pure functions from the data of the YAML files to text; the writer formats the text.  The part of
the header between ``CDEF_BEGIN`` and ``CDEF_END`` is plain declarations: runtime/qnn/build_cffi.py reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from opdb.codegen.environment import render
from opdb.core.errors import Problem, SpecError
from opdb.spec.soc import libraries_in_words

Data = Mapping[str, Any]
CDEF_BEGIN = "/* Declarations begin. */"
CDEF_END = "/* Declarations end. */"

#: The types and names that may appear in C text.
TYPE = re.compile(r"(?:const )?[A-Za-z_][A-Za-z0-9_]*(?: \*{1,3})?(?:\[\d{1,3}\])?")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: The sections that a file of specs/abi/ may have, in this order.
SECTIONS = ("constants", "typedefs", "enums", "structs", "callbacks", "tables")


def header_path(name: str) -> str:
    """The path of the header of specs/abi/<name>.yaml, e.g. "htp" -> generated/c/include/opdb/qnn_htp.h."""
    return f"generated/c/include/opdb/qnn_{'abi' if name == 'qnn' else name}.h"


def render_header(abi: Data) -> str:
    """Renders the C header of a file of specs/abi/: declarations, then an assertion for each size and offset.

    Raises SpecError for a name or a type that is not valid C.
    """
    _check_names(abi, f"specs/abi/{abi['abi']}.yaml")
    file = header_path(abi["abi"]).rpartition("/")[2]
    return render(
        "qnn_abi.h.j2",
        abi={"includes": (), **{section: {} for section in SECTIONS}, **abi},
        guard=f"OPDB_{file.upper().replace('.', '_')}",
        includes=[header_path(name).rpartition("/")[2] for name in abi.get("includes", ())],
        begin=CDEF_BEGIN,
        end=CDEF_END,
        asserts=layout(abi),
        declare=declare,
    )


def render_layouts(abis: Sequence[Data]) -> str:
    """Renders the Python module of functions and struct layouts that depend on a library's API version."""
    interfaces = [abi["interface"] for abi in abis if "interface" in abi]
    return render(
        "qnn_layouts.py.j2",
        oldest=next(abi["oldest_core_api"] for abi in abis if "oldest_core_api" in abi),
        since={f["name"]: f["since"] for i in interfaces for f in i["functions"] if "since" in f},
        layouts={name: rows for abi in abis for name, rows in abi.get("layouts", {}).items()},
    )


def render_errors(errors: Data) -> str:
    """Renders the Python module of error names by code."""
    return render("qnn_errors.py.j2", errors=errors)


def render_socs(socs: Sequence[Data]) -> str:
    """Renders the Python module of chips, from the rows of socs.yaml."""
    rows = [{**row, "libraries_in_words": libraries_in_words(row.get("libraries"))} for row in socs]
    return render("socs.py.j2", socs=sorted(rows, key=lambda row: str(row["chip"])))


def declare(type_: str, name: str) -> str:
    """A C declaration, e.g. ("uint64_t[6]", "opaque") -> "uint64_t opaque[6]"."""
    base, bracket, size = type_.partition("[")
    gap = "" if base.endswith("*") else " "
    return f"{base}{gap}{name}{bracket}{size}"


def layout(abi: Data) -> Sequence[tuple[str, str, int]]:
    """The header's assertions: (struct, member, offset in bytes), or (struct, "", size in bytes)."""
    out: list[tuple[str, str, int]] = []
    for name, struct in _structs(abi).items():
        out.append((name, "", struct["size"]))
        for field, place in struct["fields"].items():
            out.append((name, field, place["at"]))
            out += [(name, f"{field}.{member}", place["at"]) for member in place.get("union", {})]
    if "interface" in abi:
        table = abi["interface"]["table"]
        out += [(table, f["name"], f["at"]) for f in abi["interface"]["functions"]]
    return out


def _structs(abi: Data) -> Data:
    """All structs of a file by name, including the interface."""
    interface = abi.get("interface")
    named = {interface["name"]: interface} if interface else {}
    return {**abi.get("structs", {}), **abi.get("tables", {}), **named}


def _check_names(abi: Data, path: str) -> None:
    names = [n for section in ("typedefs", "enums", "constants", "callbacks") for n in abi.get(section, ())]
    names += [n for values in abi.get("enums", {}).values() for n in values]
    names += _structs(abi)
    types = list(abi.get("typedefs", {}).values())
    for struct in _structs(abi).values():
        for field, place in struct["fields"].items():
            members = place.get("union") or {field: place["type"]}
            names += [field, *members]
            types += members.values()
    for function in abi["interface"]["functions"] if "interface" in abi else ():
        names.append(function["name"])
        types += function.get("args", [])
    for callback in abi.get("callbacks", {}).values():
        types += [callback["returns"], *callback["args"]]
    bad = [n for n in names if not NAME.fullmatch(n)] + [t for t in types if not TYPE.fullmatch(t)]
    if bad:
        raise SpecError([Problem(path, 0, 0, f"{text!r} is not a C name or type") for text in bad])
