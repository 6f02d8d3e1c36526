"""A page for each rule: what it asks, in words and as written, why, and its source; as `opdb explain` has it."""

from __future__ import annotations

from collections.abc import Iterator

from opdb.judge.explain import explain
from opdb.plugins.site.facts import Facts
from opdb.plugins.site.page import Page


def pages(facts: Facts) -> Iterator[Page]:
    for op in facts.catalog.ops:
        for rule in facts.catalog.compiled(op).rule_ids():
            ident = f"{op}.{rule}"
            known = {
                "backend": None,
                "strength": None,
                "unchecked": None,
                "when": None,
                "expression": None,
                "why": None,
            }
            found = known | explain(facts.catalog, ident)
            yield Page("rule", ident, ident, "rule.html.j2", found, summary=found["asks"])
