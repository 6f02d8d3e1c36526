"""Every error code, name and log line that opdb knows explains itself; its commands, sources and pages exist."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from opdb import cli
from opdb.catalog.evidence.format import shipped
from opdb.core.errors import OpdbError
from opdb.generated.constants.qnn_errors import NAMES, RANGES
from opdb.judge import error_codes

ROOT = Path(__file__).resolve().parents[2]
KNOWN = error_codes.known()
#: Codes that users ask about.
ASKED = (1000, 1002, 1003, 1100, 3110, 4000, 4005, 5000, 5005, 6001, 6004, 6022, 6031, 14001)
ENTRIES = [*KNOWN.codes.values(), *KNOWN.lines]
COMMANDS = sorted({step["run"] for entry in ENTRIES for step in entry.steps})
#: Lines of CPU and HTP 2.47, of ExecuTorch and of ONNX Runtime, with the code that is explained.
LINES = {
    "None of the combinations match the provided case": 3110,
    "error: The SocModel doesn't support FP16": 3110,
    "The SocModel doesn't support BF16": 3110,
    "SocModel": 3110,
    "no floating point": 3110,
    "[ERROR]QnnDsp <E> Failed to validate op aten_linear_default_23 with error 0xc26": 3110,
    "Incorrect out[0] dimension at index 0. Expected 5 but got 6.": 3110,
    "QnnDsp <E> RouterX86 graph prepare failed 13": 1002,
    "Failed to finalize graph (id: 1) with err 1002": 1002,
    "tcm_migration.cc:2163::ERROR:no properties registered for q::QNN_StridedSlice": 1002,
    "QNN graph execute error. Error code: 6031": 6031,
    "QnnGraph_finalize done. status 0x3ea": 1002,
    "Could not create context from binary for context index = 0 : err 5005": 5005,
    "QNN failed to validate: 4005 QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND": 4005,
    "error: Unknown config socModel 999": 14001,
    "Failed to load skel, error: 1008": 1008,
    "Failed to load skel": 14001,
    "QnnContext_create done. status 0x0; QnnGraph_execute done. status 0x44c": 1100,
}


@pytest.mark.parametrize("code", sorted({*KNOWN.codes, *ASKED}))
def test_each_code_says_what_why_and_what_to_type(code: int) -> None:
    facts = error_codes.explain(str(code))
    assert facts == error_codes.explain(hex(code)) == error_codes.explain(NAMES[code][0].lower())
    assert facts["name"] == NAMES[code][0] and facts["code"] == code and facts["family"]
    assert facts["means"].endswith(".") and facts["why"] and facts["type"] and facts["source"]
    assert all(cause["why"] and cause["source"] for cause in facts["why"])


@pytest.mark.parametrize("code", [c for c in NAMES if c])
def test_each_code_of_the_headers_is_explained_by_all_of_its_names(code: int) -> None:
    assert all(error_codes.explain(name)["code"] == code for name in NAMES[code])
    assert error_codes.explain(str(code))["means"]


def test_each_code_that_was_measured_has_causes() -> None:
    measured = {cell.outcome.code for cell in shipped().cells.values() if (cell.outcome.code or 0) >= 1000}
    assert {1002, 1100, 3110} < measured and measured <= set(KNOWN.codes)


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_log_leads_to_its_code(line: str) -> None:
    assert error_codes.is_error(line)
    facts = error_codes.explain(line)
    assert (facts["line"], facts["code"]) == (line, LINES[line])
    assert facts["means"] and facts["type"] and facts["source"]


@pytest.mark.parametrize("entry", KNOWN.lines, ids=lambda entry: entry.says[0])
def test_each_part_of_a_line_leads_to_its_entry(entry: error_codes.Entry) -> None:
    for part in entry.says:
        assert error_codes.matching(f"QnnDsp <E> {part.upper()} 7")[0] is entry, part
    assert entry.code is None or entry.code in KNOWN.codes


def test_most_reasons_of_the_shipped_evidence_are_explained() -> None:
    reasons = [
        o.reason for cell in shipped().cells.values() if (o := cell.outcome).reason and o.code in (1002, 3110)
    ]
    known = sum(bool(error_codes.matching(reason)) for reason in reasons)
    assert known > 0.95 * len(reasons) > 1000


def test_ids_of_rules_and_errata_are_no_errors() -> None:
    ops = [path.stem for path in (ROOT / "specs" / "ops").glob("*.yaml")]
    errata = [path.stem for path in (ROOT / "specs" / "errata").glob("*/*.yaml")]
    assert ops and errata
    for text in (*ops, *(f"{op}.C1" for op in ops), *(f"{op}.TYPES_HTP" for op in ops), *errata):
        assert not error_codes.is_error(text), text


def test_a_larger_number_is_read_by_its_low_16_bits() -> None:
    assert error_codes.explain("0x3F000003EA")["code"] == 1002


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("6999", ("no error code 6999", "6000-6999, GRAPH", "6039 QNN_GRAPH_ERROR_INVALID_CONTEXT", "1000, 1002")),
        ("20000", ("no error code 20000", "no module has this range", "nearest: 14003")),
        ("QNN_GRAPH_ERROR_FINALIZED_FAILED", ("did you mean 'QNN_GRAPH_ERROR_FINALIZE_FAILED'",)),
        ("QNN_X", ("no error 'QNN_X'; explained codes: 1000",)),
        ("the moon is full", ("'the moon is full'", "3110")),
        ("0", ("QNN_SUCCESS",)),
    ],
)  # fmt: skip
def test_an_unknown_error_names_the_nearest(text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(OpdbError) as caught:
        error_codes.explain(text)
    assert "\n" not in str(caught.value)
    for part in parts:
        assert part in str(caught.value)


def test_every_module_has_words() -> None:
    assert set(KNOWN.families) == set(RANGES)


@pytest.fixture(scope="module")
def root() -> Any:
    """The command ``opdb``; Typer has a copy of click of its own, whose classes are not click's."""
    if not cli.app.registered_commands:
        cli._register()
    return typer.main.get_command(cli.app)


def parsed(root: Any, text: str) -> str:
    """The name of the command that a command line calls, after its arguments and options were parsed; nothing runs."""
    name, *rest = shlex.split(text)
    assert name == "opdb"
    context = root.make_context(name, rest)
    while hasattr(context.command, "commands"):
        rest = [*context._protected_args, *context.args]
        below, command, rest = context.command.resolve_command(context, rest)
        context = command.make_context(below, rest, parent=context)
    return str(context.command.name)


@pytest.mark.parametrize("text", COMMANDS)
def test_every_command_to_type_exists_and_takes_its_options(text: str, root: Any) -> None:
    assert parsed(root, text) in [*shlex.split(text)[1:3], "estimate"]


@pytest.mark.parametrize("text", ["opdb chek x", "opdb check x --sock SM8650", "opdb context", "opdb query"])
def test_a_command_that_does_not_exist_would_be_found(text: str, root: Any) -> None:
    with pytest.raises(Exception, match=r"No such|Missing|Usage"):
        parsed(root, text)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.says[0] if entry.says else str(entry.code))
def test_sources_and_pages_exist(entry: error_codes.Entry) -> None:
    sources = (*entry.sources, *(source for cause in entry.causes for source in cause.sources))
    assert sources
    for source in (*sources, *entry.see):
        if source.startswith("https://") or " " in source:
            continue
        assert (ROOT / source.partition("#")[0]).is_file(), source
