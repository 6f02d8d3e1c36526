"""A page for each erratum: what goes wrong, where, and what avoids it; as `opdb explain` has it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from opdb.judge.explain import erratum_facts, erratum_lines
from opdb.plugins.site.facts import Facts
from opdb.plugins.site.page import Page

#: Longer reproductions are in the JSON file only.
LONGEST = 4000
#: Lines of `opdb explain` that the page says elsewhere.
ELSEWHERE = ("erratum", "title", "op", "reproduction", "record")


def pages(facts: Facts) -> Iterator[Page]:
    for ident, erratum in facts.catalog.errata.items():
        lines = {
            k: v
            for k, v in erratum_lines(facts.catalog, erratum).items()
            if k not in ELSEWHERE and v not in (None, "", [])
        }
        known = {"op": None} | erratum_facts(facts.catalog, erratum)
        text = "" if known.get("reproduction") is None else json.dumps(known["reproduction"], indent=1)
        view = {"lines": lines, "reproduction_text": text if len(text) <= LONGEST else ""}
        yield Page("erratum", ident, ident, "erratum.html.j2", known, view, summary=erratum.title)
