"""A page for each SDK: what it was measured with, the types and errata that begin or end with it, the statuses that changed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from opdb.plugins.site.facts import CHIP, Facts, short
from opdb.plugins.site.page import Page


def pages(facts: Facts) -> Iterator[Page]:
    before = {b: a for a, b in pairwise(facts.sdks)}
    for sdk in facts.sdks:
        runs = [r for r in facts.runs if short(r["sdk"]) == sdk]
        libraries = sorted(
            {f"{r['backend']}: {r['package']} {r['package_version']}, {r['execution']}" for r in runs}
        )
        known: dict[str, Any] = {
            "sdk": sdk,
            "before": before.get(sdk),
            "measured_with": libraries,
            "chips": sorted({r["soc"] for r in runs if r["soc"]}),
            "types": [
                {"op": op, "type_row": row.id, "cells": {k: list(v) for k, v in row.cells.items()}}
                for op in facts.catalog.ops
                for rows in facts.catalog.compiled(op).type_rows.values()
                for row in rows
                if row.since and short(row.since) == sdk
            ],
            "errata_since": _errata(facts, "since", sdk),
            "errata_until": _errata(facts, "until", sdk),
            "changes": _changes(facts, before.get(sdk), sdk),
            "chip_of_changes": CHIP,
        }
        summary = "; ".join(libraries) or "known from documents"
        yield Page("sdk", sdk, f"QNN {sdk}", "sdk.html.j2", known, also=(sdk, f"SDK {sdk}"), summary=summary)


def _errata(facts: Facts, end: str, sdk: str) -> list[dict[str, Any]]:
    return [
        {"erratum": ident, "title": row["title"]}
        for ident, row in facts.errata.items()
        if row[end] is not None and short(row[end]) == sdk
    ]


def _changes(facts: Facts, before: str | None, sdk: str) -> list[dict[str, str]]:
    """The type rows whose status on CHIP, or on a backend without chips, is another than in the SDK before."""
    found = []
    part = facts.support.part_of.get(CHIP, CHIP)
    for op, rows in facts.support.rows.items():
        for row in rows:
            at = {short(s): status for (p, s), status in row.statuses.items() if p in (part, "")}
            old, new = at.get(before or ""), at.get(sdk)
            if old is not None and new is not None and old.word != new.word:
                found.append(
                    {"op": op, "type_row": row.ident, "from": old.word, "to": new.word, "why": new.why}
                )
    return found
