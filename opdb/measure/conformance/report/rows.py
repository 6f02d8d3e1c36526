"""The results of conformance runs as rows: the latest answer of every executor to every case."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import select

from opdb.catalog import schema as t
from opdb.measure.conformance.cases import read_config
from opdb.measure.conformance.executors import EXECUTORS
from opdb.measure.conformance.judge import Seen, outcome
from opdb.measure.conformance.expected_failures import explain
from opdb.measure.conformance.expected_failures import reason as reason_of
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store import Store

#: The order of executors in every report.
ORDER = tuple(EXECUTORS)


@dataclass(frozen=True)
class Row:
    """One answer.  ``outcome`` is one of ``judge.OUTCOMES``, ``reason`` says why it did not pass."""

    op: str
    case: str
    kind: str
    type_row: str
    config: str  # JSON
    case_backend: str  # '' for the op definition alone
    case_soc: str
    expected: tuple[str, ...]  # rules that the case breaks
    executor: str
    executor_version: str
    backend: str  # the one that the executor measures; '' for opdb's own code and PyTorch
    soc: str
    sdk: str
    emulated: bool
    declared: str
    validates: str
    finalizes: str
    executes: str
    matches: str
    rules: tuple[str, ...]  # reported by the executor
    code: int | None
    code_name: str
    log: str
    error_max: float | None
    ulp: float | None
    seconds: float | None
    detail: str
    run: str
    outcome: str = "unknown"
    reason: str = ""
    magnitude: float | None = None  # of PyTorch's number at the largest ``ulp``

    @property
    def place(self) -> str:
        """The executor, and the SoC if it has one; e.g. qnn-htp SM8650."""
        return " ".join(filter(None, (self.executor, self.soc)))

    @property
    def statuses(self) -> dict[str, str]:
        return {c: getattr(self, c) for c in STATUS_COLUMNS}


def read_rows(store: Store, run: int | None = None) -> list[Row]:
    """Reads the results of one run; by default the latest of each case, executor and SoC.

    For each op, only runs with the same definitions as its last run count.  Sorted by op and
    executor, with cases as they ran.
    """
    result, case, executor, library = t.result, t.conformance_case, t.executor, t.library
    query = (
        select(
            *(c for c in result.c if c.name not in ("run_id", "conformance_case_id", "executor_id")),
            *(case.c[c] for c in ("name", "op", "kind", "type_row", "config")),
            case.c.id.label("case_id"),
            case.c.backend.label("case_backend"),
            case.c.soc.label("case_soc"),
            executor.c.name.label("executor"),
            executor.c.version.label("executor_version"),
            executor.c.backend,
            library.c.sdk,
            library.c.emulated,
            t.run.c.uid.label("run"),
            t.run.c.catalog_hash,
        )
        .join(case, result.c.conformance_case_id == case.c.id)
        .join(executor, result.c.executor_id == executor.c.id)
        .join(t.run, result.c.run_id == t.run.c.id)
        .join(library, executor.c.library_id == library.c.id, isouter=True)
        .order_by(result.c.id)
    )
    if run is not None:
        query = query.where(result.c.run_id == run)
    with store.reading() as connection:
        found = list(connection.execute(query))
        rules: dict[int, list[str]] = defaultdict(list)
        for r in connection.execute(select(t.case_rule).order_by(t.case_rule.c.id)):
            rules[r.conformance_case_id].append(r.rule)
        reported: dict[int, list[str]] = defaultdict(list)
        for r in connection.execute(select(t.result_rule).order_by(t.result_rule.c.id)):
            reported[r.result_id].append(r.rule)
    last = {r.op: r.catalog_hash for r in found}
    latest = {(r.name, r.executor, r.soc): r for r in found if r.catalog_hash == last[r.op]}
    rows = [_judged(_row(r, rules[r.case_id], reported[r.id])) for r in latest.values()]
    order = {name: i for i, name in enumerate(ORDER)}
    return sorted(rows, key=lambda r: (r.op, order.get(r.executor, len(ORDER)), r.soc))


def _row(r: Any, expected: Sequence[str], reported: Sequence[str]) -> Row:
    plain: dict[str, Any] = {
        name: getattr(r, name)
        for name in (
            "op", "kind", "type_row", "config", "case_backend", "case_soc", "executor", "executor_version",
            "backend", "soc", *STATUS_COLUMNS, "code", "code_name", "log", "error_max", "ulp", "magnitude", "seconds",
            "detail", "run",
        )
    }  # fmt: skip
    plain |= {"sdk": r.sdk or "", "emulated": bool(r.emulated), "rules": tuple(reported)}
    return Row(case=r.name, expected=tuple(expected), **plain)


def _judged(row: Row) -> Row:
    seen = Seen(
        row.case, row.kind, row.executor, row.validates, row.finalizes, row.executes, row.matches,
        frozenset(row.rules), frozenset(row.expected),
    )  # fmt: skip
    what, reason = outcome(seen)
    if what in ("finding", "fail"):
        erratum = explain(read_config(row.config), row.backend, row.soc, row.sdk, row.statuses)
        what, reason = ("known", reason_of(erratum)) if erratum is not None else (what, reason)
    return replace(row, outcome=what, reason=reason)


def implications(store: Store) -> dict[str, tuple[str, ...]]:
    """rule -> the rules that break with it, for rules that no case breaks alone."""
    found: dict[str, list[str]] = defaultdict(list)
    with store.reading() as connection:
        for r in connection.execute(select(t.implication).order_by(t.implication.c.id)):
            found[r.rule].append(r.implied_by)
    return {rule: tuple(by) for rule, by in found.items()}


def runs(store: Store, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The runs that the rows come from, oldest first."""
    wanted = {r.run for r in rows}
    keys = ("uid", "started", "finished", "seed", "opdb_version", "catalog_hash", "command")
    with store.reading() as connection:
        every = connection.execute(select(t.run).order_by(t.run.c.id)).mappings()
        return [{k: r[k] for k in keys} for r in every if r["uid"] in wanted]
