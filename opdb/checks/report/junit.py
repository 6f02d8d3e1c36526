"""Coverages as JUnit XML: a test suite for each target, in it a test case for each node, failed if it falls back to the CPU."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from opdb.checks.coverage import Coverage
from opdb.checks.report.source_lines import place_of
from opdb.checks.report.plain import summary, told
from opdb.checks.side_by_side import labels

#: Characters that XML 1.0 cannot hold in any form.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(coverages: Sequence[Coverage], model: str) -> str:
    """The whole document.

    ``classname`` is the module's path, or the ATen target of a node outside of modules; with several targets the name of its
    target comes before it, because viewers merge cases of the same name.
    """
    counts = [_counts(coverage) for coverage in coverages]
    whole = {key: str(sum(int(c[key]) for c in counts)) for key in counts[0]}
    suites = ElementTree.Element("testsuites", whole)
    heads = [f"{label}." for label in labels(coverages)] if len(coverages) > 1 else [""]
    for coverage, count, head in zip(coverages, counts, heads, strict=True):
        _add_suite(suites, coverage, model, count, head)
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode")


def _counts(coverage: Coverage) -> dict[str, str]:
    left = sum(r.verdict != "supported" for r in coverage.rows)
    return {"tests": str(len(coverage.rows)), "failures": str(left), "errors": "0", "skipped": "0"}


def _add_suite(
    suites: ElementTree.Element, coverage: Coverage, model: str, counts: dict[str, str], head: str
) -> None:
    sdk = f"SDK {coverage.sdk}" if head and coverage.sdk else None
    on = " ".join(p for p in (coverage.backend, coverage.soc, sdk) if p)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _text(f"{model} on {on}"), **counts})
    for row in coverage.rows:
        path, line = place_of(row, model)
        at = {"file": _text(path)} | ({} if line is None else {"line": str(line)})
        name = {"classname": _text(f"{head}{row.module or row.target}"), "name": _text(row.node)}
        case = ElementTree.SubElement(suite, "testcase", name | at)
        if row.verdict != "supported":
            reasons = told(row) or ["opdb does not map this operator"]
            failure = ElementTree.SubElement(
                case, "failure", {"type": row.verdict, "message": _text(f"{row.target}: {reasons[0]}")}
            )
            failure.text = _text("\n".join((*reasons, *([row.line] if row.line else []))))
        elif row.warnings:
            ElementTree.SubElement(case, "system-out").text = _text("\n".join(w["brief"] for w in row.warnings))
    ElementTree.SubElement(suite, "system-out").text = _text("\n".join(summary(coverage)))


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
