"""A coverage as JUnit XML: a test case for each node, failed if it falls back to the CPU."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from opdb.checks.coverage import Coverage
from opdb.checks.report.source_lines import place_of
from opdb.checks.report.plain import summary, told

#: Characters that XML 1.0 cannot hold in any form.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(coverage: Coverage, model: str) -> str:
    """The whole document; ``classname`` is the module's path, or the ATen target of a node outside of modules."""
    left = sum(r.verdict != "supported" for r in coverage.rows)
    place = " ".join(p for p in (coverage.backend, coverage.soc) if p)
    counts = {"tests": str(len(coverage.rows)), "failures": str(left), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _text(f"{model} on {place}"), **counts})
    for row in coverage.rows:
        path, line = place_of(row, model)
        at = {"file": _text(path)} | ({} if line is None else {"line": str(line)})
        case = ElementTree.SubElement(
            suite, "testcase", {"classname": _text(row.module or row.target), "name": _text(row.node), **at}
        )
        if row.verdict != "supported":
            reasons = told(row) or ["opdb does not map this operator"]
            failure = ElementTree.SubElement(
                case, "failure", {"type": row.verdict, "message": _text(f"{row.target}: {reasons[0]}")}
            )
            failure.text = _text("\n".join((*reasons, *([row.line] if row.line else []))))
        elif row.warnings:
            ElementTree.SubElement(case, "system-out").text = _text("\n".join(w["brief"] for w in row.warnings))
    ElementTree.SubElement(suite, "system-out").text = _text("\n".join(summary(coverage)))
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode")


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
