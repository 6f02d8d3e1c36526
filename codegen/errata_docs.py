"""Documentation of faults in vendor libraries: records in words, and the index of records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from opdb.codegen.artifact import Artifact
from opdb.codegen.emit_english import sentence
from opdb.codegen.environment import render
from opdb.codegen.errata import ALL_ERRATA
from opdb.runtime.errata import EFFECTS, OTHER_CANDIDATE, PREFER_OTHER, REJECT, record_path
from opdb.spec.catalog import Catalog
from opdb.spec.erratum import Erratum, Reproduction

EFFECT_WORDS = {
    "wrong-result": "the library returns wrong results",
    "not-finalized": "the library validates the op but cannot finalize a graph with it",
    "crash": "the library crashes",
    "refuses-valid": "the library refuses what its documents allow",
    "imprecise": "results are less exact than the data type allows",
}
WORKAROUND_WORDS = {
    OTHER_CANDIDATE: "the next candidate of the PyTorch operator takes over; without one the node falls back to the CPU",
    PREFER_OTHER: "another candidate takes over; without one the op is used, with a warning",
    REJECT: "none: the node falls back to the CPU",
}
EXECUTION_WORDS = {
    "emulator": "seen on the emulator",
    "device": "seen on a device",
    "unknown": "the records do not say whether it was seen on an emulator or a device",
}


def occurs(catalog: Catalog, e: Erratum) -> str:
    """The configs for which the fault occurs, in words."""
    if not e.conditional or e.op is None:
        return f"in this pattern: {e.pattern}"
    compiled = next(c for c in catalog.compiled(e.op).errata[e.backend] if c.id == e.erratum)
    when = None if compiled.rule.when is None else sentence(compiled.rule.when, must=False)
    unless = None if e.unless is None else sentence(compiled.rule.require, must=False)
    if when is not None:
        return f"where {when}" + ("" if unless is None else f"; not where {unless}")
    if unless is None:
        return "for every config of the op"
    return f"where {sentence(compiled.rule.require, must=False, yes=False)}"


def versions(e: Erratum) -> str:
    since, until = e.scope.since, e.scope.until
    if since is not None and until is not None:
        return f"QNN {since}" if since == until else f"QNN {since} to {until}"
    if since is not None:
        return f"QNN {since} and later"
    return "every version of QNN" if until is None else f"QNN up to {until}"


def chips(e: Erratum) -> str:
    """The affected chips, e.g. v68, v69; SM8350; "all" without a limit."""
    return (
        "; ".join(filter(None, (", ".join(f"v{a}" for a in e.scope.arch), ", ".join(e.scope.socs)))) or "all"
    )


def workaround(e: Erratum) -> str:
    return WORKAROUND_WORDS.get(e.workaround, "a function of opdb/lower/workarounds")


def cost(e: Erratum) -> str:
    if e.cost is None:
        return "not measured"
    return e.cost.class_ if e.cost.note is None else f"{e.cost.class_}: {e.cost.note}"


def seen(e: Erratum) -> list[str]:
    """The observations, e.g. HTP 2.47.0 for SM8350, SM8650, on 2026-11-20 (probe HTP 2.47.0 SM8350)."""
    return [
        s.library
        + (f" for {', '.join(s.socs)}" if s.socs else "")
        + (f", on {s.date}" if s.date else "")
        + (f" ({s.source})" if s.source else "")
        for s in e.seen
    ]


def evidence(e: Erratum) -> list[str]:
    return [
        f"{x.shows} on {x.device}: {x.model}, {x.runtime}: {x.figure}"
        + (f" ({x.source})" if x.source else "")
        for x in e.evidence
    ]


def reproduced(r: Reproduction) -> list[str]:
    """The op configs of a reproduction, each as one line of JSON."""
    return [json.dumps(config) for config in ([r.config] if r.config is not None else r.graph)]


def index(catalog: Catalog) -> Iterable[Artifact]:
    """Renders docs/errata/index.md: the records by op, by effect, and by scope."""
    errata = list(catalog.errata.values())
    by_op = [
        (op, [(e, chips(e), versions(e)) for e in group])
        for op, group in _groups(errata, lambda e: e.op or "several ops", key=str.lower)
    ]
    tables = [
        ("By effect", "effect", _groups(errata, lambda e: e.effect, key=EFFECTS.index)),
        ("By scope", "scope", _groups(errata, _place, key=str)),
    ]
    text = render(
        "errata_index.md.j2",
        count=len(errata),
        by_op=by_op,
        tables=tables,
        words=EFFECT_WORDS,
        path=record_path,
    )
    yield Artifact("generated/docs/errata/index.md", text, (ALL_ERRATA,), "markdown")


def _place(e: Erratum) -> str:
    """The scope in words, e.g. HTP, QNN 2.47 to 2.48, v68, v69, seen on the emulator."""
    limits = "" if chips(e) == "all" else f", {chips(e)}"
    told = "" if e.scope.execution == "unknown" else f", {EXECUTION_WORDS[e.scope.execution]}"
    return f"{e.backend}, {versions(e)}{limits}{told}"


def _groups(
    errata: Iterable[Erratum], of: Callable[[Erratum], str], key: Callable[[str], Any]
) -> list[tuple[str, list[Erratum]]]:
    groups: dict[str, list[Erratum]] = {}
    for e in errata:
        groups.setdefault(of(e), []).append(e)
    return [(name, sorted(groups[name], key=lambda e: e.erratum)) for name in sorted(groups, key=key)]
