"""A page for each op: support, a config to edit with its verdict, the definition, where it comes from, faults, rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opdb.codegen import docs
from opdb.judge.explain import policies
from opdb.plugins.site import verdicts
from opdb.plugins.site.facts import Facts
from opdb.plugins.site.page import Page
from opdb.plugins.site.support import Matrix, matrices

#: Chips that the heading of a column names; the others are listed below the matrix.
NAMED = 2


def pages(facts: Facts, live: bool) -> Iterator[Page]:
    """``live``: the page's validator is there."""
    for name in facts.catalog.ops:
        yield _page(facts, name, live)


def _page(facts: Facts, name: str, live: bool) -> Page:
    view = docs.view(facts.catalog, name)
    definition = view["op"]
    found = matrices(facts.support, name)
    order = {b: i for i, b in enumerate(facts.backends)}
    found.sort(key=lambda m: order.get(m.backend, len(order)))
    known = {
        "op": name,
        "package": definition.package,
        "summary": definition.summary or "",
        "source": definition.source or "",
        "inputs": [vars(s) for s in view["inputs"]],
        "params": [vars(p) for p in view["params"]],
        "outputs": [vars(s) for s in view["outputs"]],
        "lets": [{"name": n, "stands_for": text} for n, text in view["lets"]],
        "rules": [
            {"group": heading, "source": source, "rules": [_rule(name, r) for r in rules]}
            for heading, source, rules in view["groups"]
        ],
        "support": [_matrix(facts, m) for m in found],
        "errata": [
            {"erratum": e.erratum, "effect": e.effect, "title": e.title, "policy": policies(e)}
            for e in view["errata"]
        ],
        "torch": facts.torch_of.get(name, []),
        "onnx": facts.onnx_to(name),
        "tflite": sorted({t for o in facts.onnx_to(name) for t in facts.tflite_of.get(o, ())}),
        "quantization": [{"name": key, "rule": value} for key, value in view["quant"]],
        "kernel": None
        if definition.kernel is None
        else {"function": definition.kernel.function, "dtypes": list(definition.kernel.dtypes)},
        "samples": view["samples"],
        "measured_with": [line for m in found for line in facts.measured_with(m.backend)],
    }
    asked = verdicts.about(facts, name)
    return Page(
        "op",
        name,
        name,
        "op.html.j2",
        known,
        {"asked": asked, "live": live},
        summary=definition.summary or "",
    )


def _rule(op: str, rule: docs.RuleDoc) -> dict[str, Any]:
    return {
        "rule": f"{op}.{rule.id}",
        "sentence": rule.sentence,
        "expression": rule.expression,
        "when": rule.when,
        "warning": bool(rule.effect),
    }


def _matrix(facts: Facts, matrix: Matrix) -> Mapping[str, Any]:
    """A matrix as JSON: columns with their chips, rows with a list of [SDKs, word, note] for each column."""
    columns = [sorted(chips, key=lambda c: facts.popular.get(c, 0)) for chips in matrix.columns]
    order = sorted(range(len(columns)), key=lambda i: (-len(columns[i]), columns[i]))
    return {
        "backend": matrix.backend,
        "sdks": list(matrix.sdks),
        "columns": [{"label": _label(facts, columns[i]), "chips": sorted(columns[i])} for i in order],
        "rows": [
            {
                "type_row": row.ident,
                "kind": row.kind,
                "cells": row.cells,
                "support": [list(found[i].ranges) for i in order],
            }
            for row, found in matrix.rows
        ],
        "notes": list(matrix.notes),
        "others": [{"word": word, "why": why, "chips": sorted(chips)} for word, why, chips in matrix.others],
    }


def _label(facts: Facts, chips: list[str]) -> str:
    """The head of a column, e.g. v68-v81: SM8350, SM8450 and 33 more."""
    if chips == [""]:
        return "any chip"
    arch = sorted({facts.catalog.socs[c].htp_arch or 0 for c in chips} - {0})
    versions = f"v{arch[0]}: " if len(arch) == 1 else f"v{arch[0]}-v{arch[-1]}: " if arch else ""
    more = len(chips) - NAMED
    return versions + ", ".join(chips[:NAMED]) + (f" and {more} more" if more > 0 else "")
