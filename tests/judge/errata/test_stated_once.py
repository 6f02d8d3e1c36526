"""A fault of a vendor library is stated only in its record: specs, code and docs name the record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
#: Phrases that state a fault.  Specs say what documents and validators do: "takes", "does not check", "compares".
FAULT = re.compile(
    r"\b(wrong (?:numbers|values|results?|rows|elements|means|sums|places|boxes)|wrongly|is wrong|garbage|crash(?:es|ed)?"
    r"|SIGSEGV|SIGFPE|SIGABRT|(?:is|are) not finali[sz]ed|finali[sz]es? no|does not finali[sz]e|refuses the graph"
    r"|finali[sz]ation refuses|computes? wrong results)\b"
)
ERRATUM = re.compile(r"\b[A-Z]{3,}-[0-9]{4}\b")
#: Places where a QNN version may occur next to a fault: records, and results of runs.
RECORDS = ("specs/errata", "opdb/judge/errata", "docs/results")
FOLDERS = ("benchmarks", "codegen", "docs", "opdb", "runtime", "specs", "tools")
SUFFIXES = (".py", ".md", ".yaml", ".c", ".h", ".j2", ".rst", ".json")


@pytest.mark.parametrize("folder", ["ops", "bases", "torch"])
def test_no_spec_states_a_fault(folder: str) -> None:
    """This covers reasons of rules and guards, summaries and notes."""
    found = [
        f"{file.name}:{number}: {line.strip()}"
        for file in sorted((ROOT / "specs" / folder).glob("*.yaml"))
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if FAULT.search(line)
    ]
    assert (ROOT / "specs" / folder).is_dir() and not found


def test_no_line_with_a_version_of_qnn_states_a_fault() -> None:
    """Lines that name the record are exempt."""
    found, read = [], 0
    files = [f for folder in FOLDERS for f in (ROOT / folder).rglob("*") if f.suffix in SUFFIXES]
    for file in sorted({*files, ROOT / "README.md"}):
        place = file.relative_to(ROOT).as_posix()
        if place.startswith(RECORDS):
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            read += "2.47" in line
            if "2.47" in line and FAULT.search(line) and not ERRATUM.search(line):
                found.append(f"{place}:{number}: {line.strip()}")
    assert read > 100 and not found


@pytest.mark.parametrize(
    "text",
    [
        "HTP 2.47 computes wrong results in 16 bits.",
        "The libraries of 2.47 validate more; then HTP does not execute it and CPU computes wrong values.",
        "The validators of 2.47 do not check the size; finalization refuses another.",
        "HTP's Argmin is wrong along a last dimension of two elements.",
        "The libraries divide by it; at 0 the validator crashes.",
    ],
)
def test_phrases_that_state_a_fault_are_recognized(text: str) -> None:
    assert FAULT.search(text)
