"""The declarations of QNN's C interface: the compiler's word, and the layouts of the vendor's libraries."""

from __future__ import annotations

import copy
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opdb.codegen import abi
from opdb.dtypes import DTYPES
from opdb.errors import SpecError
from opdb.generated.constants.qnn_errors import NAMES, RANGES
from opdb.generated.constants.socs import SOCS
from opdb.runtime.qnn.errors import QnnError, error_name
from opdb.runtime.qnn.native import ffi, lib
from opdb.spec import parse_document

ROOT = Path(__file__).resolve().parents[2]


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


def test_a_function_out_of_place_does_not_compile(qnn: Any, tmp_path: Path) -> None:
    wrong = copy.deepcopy(qnn)
    del wrong["interface"]["functions"][5]
    assert compile_header(abi.render_header(wrong), tmp_path).returncode != 0


def test_the_compiled_binding_has_the_layouts_of_the_facts(qnn: Any) -> None:
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


def test_data_types_are_those_of_the_dtype_table() -> None:
    for dtype in DTYPES:
        assert getattr(lib, dtype.macro) == dtype.code


@pytest.mark.parametrize("name", ["a; int b", "x)(", "2d", "t*/", ""])
def test_what_is_not_a_c_name_is_refused(qnn: Any, name: str) -> None:
    wrong = copy.deepcopy(qnn)
    wrong["typedefs"][name] = "uint32_t"
    with pytest.raises(SpecError, match="is not a C name or type"):
        abi.render_header(wrong)


@pytest.mark.parametrize("type_", ["uint32_t; int x", "int (*)(void)", "uint32_t[1000000]"])
def test_what_is_not_a_c_type_is_refused(qnn: Any, type_: str) -> None:
    wrong = copy.deepcopy(qnn)
    wrong["structs"]["Qnn_Version_t"]["fields"]["major"]["type"] = type_
    with pytest.raises(SpecError, match="is not a C name or type"):
        abi.render_header(wrong)


def test_generated_files_hold_what_the_specs_say() -> None:
    def squeeze(text: str) -> str:
        """The tokens: formatting and the first line are the writer's."""
        text = "\n".join(line for line in text.splitlines() if "@generated" not in line)
        return re.sub(r"[\s,()\\]+", "", text)

    for path, text in (
        ("generated/c/include/opdb/qnn_abi.h", abi.render_header(data("abi/qnn.yaml"))),
        ("generated/python/constants/qnn_errors.py", abi.render_errors(data("abi/errors.yaml"))),
        ("generated/python/constants/socs.py", abi.render_socs(data("socs.yaml"))),
    ):
        assert squeeze((ROOT / path).read_text(encoding="utf-8")) == squeeze(text), path


def test_error_names() -> None:
    assert error_name(0) == "QNN_SUCCESS"
    assert error_name(3110) == "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE"
    assert error_name(4005) == "QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND"
    assert error_name(1004) == "QNN_COMMON_ERROR_INVALID_ARGUMENT"
    assert error_name(6998) == "QNN_GRAPH_ERROR_6998"
    assert error_name(65535) == "QNN_ERROR_65535"
    for code in NAMES:
        assert code == 0 or any(first <= code <= last for first, last in RANGES.values()), code


def test_an_error_says_stage_code_name_and_the_first_reason() -> None:
    error = QnnError("finalize the graph", 6010, ("verbose: begin", "error: no VTCM", "error: later"))
    assert str(error).startswith("QNN failed to finalize the graph: 6010 QNN_GRAPH_ERROR_")
    assert str(error).endswith(": no VTCM")
    assert error.log[0] == "verbose: begin"


def test_chips_of_the_documents() -> None:
    known = {
        "SM8550": (43, 73),
        "SM8650": (57, 75),
        "SM8750": (69, 79),
        "SM8850": (87, 81),
        "SM8350": (30, 68),
    }
    assert {chip: SOCS[chip][1:3] for chip in known} == known
    assert all(soc.htp_arch and soc.htp_arch >= 68 for soc in SOCS.values())
