"""JUnit XML for CI: a suite for each executor and SoC, a test for each case.

fail is a failure; unknown is skipped; known faults and findings pass, with the reason as a property,
because they concern a vendor's library and not this repository.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Xml

from opdb.measure.conformance.report.rows import Row
from opdb.catalog.schema import STATUS_COLUMNS

if TYPE_CHECKING:
    from opdb.measure.conformance.gaps import Gaps

#: Characters that XML 1.0 cannot hold.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def document(rows: Sequence[Row], gaps: Gaps | None = None) -> str:
    """Returns the whole file, with its XML declaration."""
    root = Xml.Element("testsuites", name="opdb conformance")
    places: dict[str, list[Row]] = {}
    for row in rows:
        places.setdefault(row.place, []).append(row)
    suites = [_suite(place, group) for place, group in places.items()]
    if gaps is not None:
        suites.append(_gaps(gaps))
    for suite in suites:
        root.append(suite)
    for total in ("tests", "failures", "skipped"):
        root.set(total, str(sum(int(s.get(total, "0")) for s in suites)))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _suite(place: str, rows: Sequence[Row]) -> Xml.Element:
    suite = Xml.Element("testsuite", name=place, tests=str(len(rows)))
    suite.set("failures", str(sum(r.outcome == "fail" for r in rows)))
    suite.set("skipped", str(sum(r.outcome == "unknown" for r in rows)))
    suite.set("errors", "0")
    suite.set("time", f"{sum(r.seconds or 0.0 for r in rows):.6f}")
    for row in rows:
        suite.append(_test(row))
    return suite


def _test(row: Row) -> Xml.Element:
    test = Xml.Element("testcase", classname=f"{row.place}.{row.op}", name=row.case)
    test.set("time", f"{row.seconds or 0.0:.6f}")
    properties = Xml.SubElement(test, "properties")
    for name in STATUS_COLUMNS:
        Xml.SubElement(properties, "property", name=name, value=getattr(row, name))
    if row.outcome in ("known", "finding"):
        Xml.SubElement(properties, "property", name=row.outcome, value=_text(row.reason))
    if row.outcome == "unknown":
        Xml.SubElement(test, "skipped", message=_text(row.reason))
    if row.outcome == "fail":
        Xml.SubElement(test, "failure", type="fail", message=_text(row.reason)).text = _text(row.detail)
    if row.outcome != "pass" and row.log:
        Xml.SubElement(test, "system-out").text = _text(row.log)
    return test


def _gaps(gaps: Gaps) -> Xml.Element:
    """The rules as their own suite: a rule with an empty column is a failure."""
    suite = Xml.Element("testsuite", name="rules", tests=str(len(gaps.rules)), failures=str(len(gaps.left)))
    suite.set("skipped", "0")
    suite.set("errors", "0")
    for rule in gaps.rules:
        test = Xml.SubElement(suite, "testcase", classname=f"rules.{rule.op}", name=rule.rule)
        if rule.empty:
            Xml.SubElement(test, "failure", type="gap", message=f"nothing in {', '.join(rule.empty)}")
    return suite


def _text(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
