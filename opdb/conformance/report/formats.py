"""A report as table rows, JSON and JUnit; the HTML page is in html.py."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from xml.etree import ElementTree

from opdb.conformance.report.html import STATUSES
from opdb.conformance.report.rows import Report

#: The columns of the table.
COLUMNS = ("op", "executor", "soc", "cases", *STATUSES, "pass", "known", "finding", "fail", "unknown")


def table(report: Report) -> list[dict[str, Any]]:
    """One row for each op, executor and SoC: how many positive cases say yes to each status, and the outcomes."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in report.rows:
        groups.setdefault((row["op"], row["executor"], row["soc"]), []).append(row)
    out = []
    for (op, executor, soc), rows in sorted(groups.items()):
        outcomes = Counter(r["outcome"] for r in rows)
        line: dict[str, Any] = {"op": op, "executor": executor, "soc": soc, "cases": len(rows)}
        for status in STATUSES:
            asked = [
                r for r in rows if r["kind"] == "positive" and r[status] not in ("unknown", "not-applicable")
            ]
            line[status] = f"{sum(r[status] == 'yes' for r in asked)}/{len(asked)}" if asked else ""
        out.append(line | {k: outcomes[k] or None for k in COLUMNS[-5:]})
    return out


def as_json(report: Report) -> str:
    """The run and all its rows; the op config as an object."""
    rows = [r | {"config": json.loads(r["config"])} for r in report.rows]
    return json.dumps({"run": report.run, "results": rows}, indent=1, default=str) + "\n"


def junit(report: Report) -> str:
    """JUnit XML: a suite for each executor and SoC; "fail" is a failure, what the library does else is output."""
    suites = ElementTree.Element("testsuites", name="opdb conformance")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in report.rows:
        groups.setdefault(" ".join(p for p in (row["executor"], row["soc"]) if p), []).append(row)
    for name, rows in sorted(groups.items()):
        suite = ElementTree.SubElement(
            suites, "testsuite", name=name, tests=str(len(rows)), failures=str(sum(r["outcome"] == "fail" for r in rows)),
            skipped=str(sum(r["outcome"] == "unknown" for r in rows)), timestamp=str(report.run["started"]),
        )  # fmt: skip
        for row in rows:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                classname=f"{row['executor']}.{row['op']}",
                name=_xml(row["case"]),
                time=f"{row['seconds'] or 0:.6f}",
            )
            statuses = ", ".join(f"{s} {row[s]}" for s in STATUSES)
            if row["outcome"] == "fail":
                failure = ElementTree.SubElement(case, "failure", message=_xml(row["why"]))
                failure.text = _xml(f"{statuses}\n{row['detail']}\n{row['log']}")
            elif row["outcome"] == "unknown":
                ElementTree.SubElement(case, "skipped", message=_xml(row["why"]))
            elif row["outcome"] in ("known", "finding"):
                ElementTree.SubElement(case, "system-out").text = _xml(f"{row['why']}\n{statuses}")
    ElementTree.indent(suites)
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _xml(text: str) -> str:
    """``text`` without what XML 1.0 cannot hold."""
    return "".join(
        c if c in "\n\t" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" else "?" for c in text
    )
