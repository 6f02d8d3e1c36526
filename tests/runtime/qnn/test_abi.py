"""The declarations of QNN's C interface: checked with the compiler, and against the layouts of the vendor's libraries."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opdb.codegen import abi
from opdb.core.dtypes import DTYPES
from opdb.core.errors import SpecError
from opdb.generated.constants.qnn_errors import NAMES, RANGES
from opdb.generated.constants.qnn_layouts import LAYOUTS, OLDEST_CORE_API, SINCE
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn import structs
from opdb.runtime.qnn.errors import QnnError, error_name
from opdb.runtime.qnn.native import ffi, lib
from opdb.spec.files import parse_document

ROOT = Path(__file__).resolve().parents[3]
#: Names, sizes and offsets out of the headers of three SDKs.
FACTS = json.loads((ROOT / "tests/data/abi_facts.json").read_text(encoding="utf-8"))
OLD, NEW = "2.25.0", "2.48.40"
ABIS = ("qnn", "htp", "system", "op_package")
#: Members of opdb's own: the room of a union, the function table without its version.
OWN_MEMBERS = {"opaque", "api"}
#: Prefix of structs from a C++ header without facts; tests of op packages prove them by running one.
MEASURED = "QnnCpuOpPackage_"
#: Structs that grew, and why opdb need not choose a layout: it hands out a pointer to one of them, never an array.
POINTED_AT = {
    "QnnHtpGraph_CustomConfig_t": "QnnGraph_Config_t points at it; an older library reads less of it",
    "QnnInterface_t": "the library's own; `since` says how far its table reaches",
    "QnnSystemInterface_t": "the library's own; `since` says how far its table reaches",
}


@functools.cache
def data(name: str) -> Any:
    return parse_document((ROOT / "specs" / name).read_text(encoding="utf-8"), name).data


@pytest.fixture(scope="module")
def qnn() -> Any:
    return data("abi/qnn.yaml")


def compile_header(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "qnn_abi.h").write_text(text, encoding="utf-8")
    (folder / "t.c").write_text('#include "qnn_abi.h"\nint main(void) { return 0; }\n', encoding="utf-8")
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "t.c"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_header_is_plain_c99_and_its_assertions_hold(qnn: Any, tmp_path: Path) -> None:
    done = compile_header(abi.render_header(qnn), tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("struct", "change"),
    [
        ("Qnn_Tensor_t", lambda s: s.update(size=120)),
        ("QnnGraph_Config_t", lambda s: s["fields"]["u"].update(at=4)),
        ("Qnn_TensorV1_t", lambda s: s["fields"]["type"].update(type="uint64_t")),
    ],
)
def test_a_wrong_layout_does_not_compile(qnn: Any, struct: str, change: Any, tmp_path: Path) -> None:
    wrong = copy.deepcopy(qnn)
    change(wrong["structs"][struct])
    done = compile_header(abi.render_header(wrong), tmp_path)
    assert done.returncode != 0
    assert f"opdb_size_of_{struct}" in done.stderr or f"opdb_place_in_{struct}" in done.stderr


def test_a_misplaced_function_does_not_compile(qnn: Any, tmp_path: Path) -> None:
    wrong = copy.deepcopy(qnn)
    del wrong["interface"]["functions"][5]
    assert compile_header(abi.render_header(wrong), tmp_path).returncode != 0


def test_the_compiled_binding_matches_the_known_layouts(qnn: Any) -> None:
    for struct, member, number in abi.layout(qnn):
        if struct == "QnnInterface_Functions_t" and member == "logCreate":
            continue  # takes a va_list: C only
        got = ffi.offsetof(struct, *member.split(".")) if member else ffi.sizeof(struct)
        assert got == number, (struct, member)
    # the figures that differ between releases, QNN 2.47 to 2.48.40
    assert ffi.sizeof("Qnn_Tensor_t") == 144
    assert ffi.sizeof("Qnn_Param_t") == 160
    assert ffi.sizeof("QnnHtpGraph_CustomConfig_t") == 56
    assert ffi.offsetof("QnnHtpDevice_CustomConfig_t", "u") == 8
    assert ffi.sizeof("QnnInterface_t") == 40 + 8 * 72


def test_data_types_match_the_dtype_table() -> None:
    for dtype in DTYPES:
        assert getattr(lib, dtype.macro) == dtype.code


@pytest.mark.parametrize("name", ["a; int b", "x)(", "2d", "t*/", ""])
def test_invalid_c_names_are_refused(qnn: Any, name: str) -> None:
    wrong = copy.deepcopy(qnn)
    wrong["typedefs"][name] = "uint32_t"
    with pytest.raises(SpecError, match="is not a C name or type"):
        abi.render_header(wrong)


@pytest.mark.parametrize("type_", ["uint32_t; int x", "int (*)(void)", "uint32_t[1000000]"])
def test_invalid_c_types_are_refused(qnn: Any, type_: str) -> None:
    wrong = copy.deepcopy(qnn)
    wrong["structs"]["Qnn_Version_t"]["fields"]["major"]["type"] = type_
    with pytest.raises(SpecError, match="is not a C name or type"):
        abi.render_header(wrong)


def test_generated_files_match_the_specs() -> None:
    def squeeze(text: str) -> str:
        """The tokens only: formatting and the first line come from the writer."""
        text = "\n".join(line for line in text.splitlines() if "@generated" not in line)
        return re.sub(r"[\s,()\\]+", "", text)

    for path, text in (
        ("generated/c/include/opdb/qnn_abi.h", abi.render_header(data("abi/qnn.yaml"))),
        ("generated/python/constants/qnn_errors.py", abi.render_errors(data("abi/errors.yaml"))),
        ("generated/python/constants/socs.py", abi.render_socs(data("socs.yaml"))),
    ):
        assert squeeze((ROOT / path).read_text(encoding="utf-8")) == squeeze(text), path


def test_error_codes_have_names() -> None:
    assert error_name(0) == "QNN_SUCCESS"
    assert error_name(3110) == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
    assert error_name(4005) == "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND"
    assert error_name(1004) == "QNN_COMMON_ERROR_INVALID_ARGUMENT"
    assert error_name(6998) == "QNN_GRAPH_ERROR_6998"
    assert error_name(65535) == "QNN_ERROR_65535"
    for code in NAMES:
        assert code == 0 or any(first <= code <= last for first, last in RANGES.values()), code


def test_an_error_gives_stage_code_name_and_first_reason() -> None:
    error = QnnError("finalize the graph", 6010, ("verbose: begin", "error: no VTCM", "error: later"))
    assert str(error).startswith("QNN failed to finalize the graph: 6010 QNN_GRAPH_ERROR_")
    assert str(error).endswith(": no VTCM")
    assert error.log[0] == "verbose: begin"


def test_chips_match_the_documents() -> None:
    known = {
        "SM8550": (43, 73),
        "SM8650": (57, 75),
        "SM8750": (69, 79),
        "SM8850": (87, 81),
        "SM8350": (30, 68),
    }
    assert {chip: SOCS[chip][1:3] for chip in known} == known
    assert all(soc.htp_arch and soc.htp_arch >= 68 for soc in SOCS.values() if soc.fp16)


def declared(name: str) -> dict[str, Any]:
    """The structs declared by specs/abi/<name>.yaml."""
    abi_ = data(f"abi/{name}.yaml")
    interface = abi_.get("interface")
    return {
        **abi_.get("structs", {}),
        **abi_.get("tables", {}),
        **({interface["name"]: interface} if interface else {}),
    }


def members(struct: Any) -> dict[str, int]:
    """Member -> offset, including members of unions, as in the facts."""
    out: dict[str, int] = {}
    for field, place in struct["fields"].items():
        out |= dict.fromkeys(place.get("union", {field: None}), place["at"])
    return {name: at for name, at in out.items() if name not in OWN_MEMBERS}


def fact(struct: str) -> tuple[str, str]:
    """The SDK and name under which the facts have a declared struct: QNN's name has no version suffix."""
    older = {row.struct: name for name, rows in LAYOUTS.items() for row in rows if row.struct != name}
    return (OLD, older[struct]) if struct in older else (NEW, struct)


@pytest.mark.parametrize("name", ABIS)
def test_every_declared_struct_matches_the_headers(name: str) -> None:
    for struct, shape in declared(name).items():
        sdk, known = fact(struct)
        if struct.startswith(MEASURED) and known not in FACTS["structs"][sdk]:
            continue
        assert known in FACTS["structs"][sdk], f"{struct}: no fact; add it to tests/data/abi_facts.json"
        size, offsets = FACTS["structs"][sdk][known]
        assert shape["size"] == size, struct
        for member, at in members(shape).items():
            assert (member, at) == (member, offsets.get(member, [None])[0]), (struct, sdk)


@pytest.mark.parametrize("name", [n for n in ABIS if n != "op_package"])
def test_every_compiled_struct_matches_the_headers(name: str) -> None:
    """Sizes are compared, too: an offset may be right by chance if the preceding type is wrong."""
    for struct in declared(name):
        sdk, known = fact(struct)
        size, offsets = FACTS["structs"][sdk][known]
        compiled = ffi.typeof(struct)
        assert ffi.sizeof(compiled) == size, struct
        seen = 0
        for field, place in compiled.fields:
            inner = place.type.fields if place.type.kind == "union" and field == "u" else [(field, place)]
            for member, part in inner:
                if member in OWN_MEMBERS:
                    continue
                at = place.offset + (part.offset if inner is not None and field == "u" else 0)
                assert [at, ffi.sizeof(part.type)] == offsets[member], (struct, member)
                seen += 1
        assert seen == len(members(declared(name)[struct])), struct


@pytest.mark.parametrize("name", ABIS)
def test_structs_changed_since_the_oldest_release_have_layouts(name: str) -> None:
    changed = set()
    for struct, shape in declared(name).items():
        if fact(struct)[0] == OLD or struct not in FACTS["structs"][OLD]:
            continue
        size, old = FACTS["structs"][OLD][struct]
        new = FACTS["structs"][NEW][struct][1]
        moved = [m for m in members(shape) if m in old and old[m] != new[m]]
        if moved or (shape["size"] != size and struct not in POINTED_AT):
            assert struct in LAYOUTS, f"{struct}: {moved or 'its size'} changed since {OLD}; give it layouts"
            changed.add(struct)
        # additions are other members of a union: they move nothing
        unions = {m for place in shape["fields"].values() for m in place.get("union", {})}
        assert set(members(shape)) - set(old) <= unions, struct
    expected = {"htp": {"QnnHtpDevice_CustomConfig_t"}, "system": {"QnnSystemContext_GraphInfo_t"}}
    assert changed == expected.get(name, set())


def test_function_tables_only_grow_at_their_end() -> None:
    for table, name in (("backend", "qnn"), ("system", "system")):
        tables = [FACTS["functions"][sdk][table] for sdk in ("2.25.0", "2.43.0", "2.48.40")]
        for older, newer in itertools.pairwise(tables):
            assert newer[: len(older)] == older
        ours = data(f"abi/{name}.yaml")["interface"]["functions"]
        assert [f["name"] for f in ours] == tables[-1]
        assert [f["at"] for f in ours] == [8 * i for i in range(len(ours))]


def test_since_is_the_first_api_seen_with_a_function() -> None:
    expected = {}
    for table, versions in (("backend", "core_api"), ("system", "system_api")):
        known: set[str] = set()
        for sdk, functions in FACTS["functions"].items():  # oldest first
            api = tuple(map(int, FACTS[versions][sdk].split(".")))[:2]
            if known:
                expected |= {f: api for f in functions[table] if f not in known}
            known |= set(functions[table])
    assert expected == SINCE
    assert ".".join(map(str, OLDEST_CORE_API)) + ".0" == FACTS["core_api"][OLD]


def test_the_oldest_library_knows_everything_opdb_writes() -> None:
    """Tensor versions and quantization encodings need no choice by version."""
    for encoding in structs.ENCODINGS:
        name = f"QNN_QUANTIZATION_ENCODING_{encoding}"
        for sdk in (OLD, NEW):
            assert FACTS["quantization_encodings"][sdk][name] == getattr(lib, name)
    for sdk in (OLD, NEW):
        assert FACTS["tensor_versions"][sdk]["QNN_TENSOR_VERSION_1"] == lib.QNN_TENSOR_VERSION_1
        assert FACTS["tensor_versions"][sdk]["QNN_TENSOR_VERSION_2"] == lib.QNN_TENSOR_VERSION_2


def test_layouts_cover_every_known_release() -> None:
    """Each available header's API has exactly one layout, and it is that header's."""
    for struct, versions in (("QnnHtpDevice_CustomConfig_t", "core_api"),
                             ("QnnSystemContext_GraphInfo_t", "system_api")):  # fmt: skip
        for sdk in (OLD, NEW):
            api = tuple(map(int, FACTS[versions][sdk].split(".")))[:2]
            rows = [
                row.struct
                for row in LAYOUTS[struct]
                if (row.since is None or api >= row.since) and (row.until is None or api <= row.until)
            ]
            assert len(rows) == 1, (struct, sdk, rows)
            assert ffi.sizeof(rows[0]) == FACTS["structs"][sdk][struct][0]
