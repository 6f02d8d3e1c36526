"""The errata that a compiled graph may show: passes replace ops, and with them the errata of the ops that the nodes became."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from opdb.catalog.targets.target import Target
from opdb.checks.coverage import Coverage, Row
from opdb.core.graph import QnnGraph
from opdb.generated import validators
from opdb.judge.errata.policy import WARN, policy, warning
from opdb.judge.errata.records import RECORDS
from opdb.judge.validate import check
from opdb.lower.violations import hits
from opdb.runtime.forms import Lowered


def with_errata_of(coverage: Coverage, graph: QnnGraph, target: Target) -> Coverage:
    """``coverage`` with the warnings of errata that the ops of ``graph`` have, by the node that each op came from.

    ``graph``: made from ``coverage.lowered``, after the passes.  An erratum that no op has alone, e.g. one of several ops between
    conversions, stays with its node while an op of its kind is left.
    """
    shown = _shown(graph, target)
    kinds = {op.op for op in graph.ops}
    return replace(
        coverage,
        rows=tuple(_row(row, coverage, shown.get(row.node, ()), kinds, target) for row in coverage.rows),
    )


def _shown(graph: QnnGraph, target: Target) -> Mapping[str, tuple[str, ...]]:
    """The errata to warn of that the ops of each node have."""
    known = {e.op for e in RECORDS.values() if e.backend == target.backend and policy(e.id, target) == WARN}
    found: dict[str, dict[str, None]] = {}
    for op in graph.ops:
        if op.op not in known or validators.module(op.op) is None:
            continue
        for violation in check(graph.op_config(op), target).violations:
            if violation.erratum and policy(violation.erratum, target) == WARN:
                found.setdefault(op.origin, {})[violation.erratum] = None
    return {node: tuple(errata) for node, errata in found.items()}


def _row(row: Row, coverage: Coverage, shown: tuple[str, ...], kinds: set[str], target: Target) -> Row:
    if row.verdict != "supported" or not (row.warned or shown):
        return row
    lowered = coverage.lowered[row.node]
    alone = {e for op in lowered.ops for e in hits(op, target)} if isinstance(lowered, Lowered) else set()
    left = [e for e in row.warned if e in shown or (e not in alone and RECORDS[e].op in (*kinds, ""))]
    warned = tuple(dict.fromkeys((*left, *shown)))
    if warned == row.warned:
        return row
    return replace(
        row,
        warned=warned,
        warnings=tuple(_warnings(row, warned)),
        extra={e: cost for e, cost in row.extra.items() if e in warned or e in row.avoided},
    )


def _warnings(row: Row, warned: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """The warnings of a row with those of ``warned`` in place of its own errata."""
    yield from (w for w in row.warnings if w["rule"] not in row.warned or w["rule"] in warned)
    for erratum in warned:
        if erratum not in row.warned:
            text = warning(RECORDS[erratum])
            yield {"form": row.form, "rule": erratum, "message": text, "brief": text}
