"""The results of a run out of SQL, each with what it means: what every report format is made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from opdb import schema as t
from opdb.conformance.judge import outcome, seen
from opdb.conformance.quirks import Quirk, explain
from opdb.errors import OpdbError
from opdb.schema import STATUS_COLUMNS
from opdb.store import CaseRecord, ExecutorRecord, ResultRecord, Store


@dataclass(frozen=True)
class Report:
    """One run: what it was, and its rows in the order of cases, then executors."""

    run: dict[str, Any]
    rows: list[dict[str, Any]]


def read(store: Store, run: int | None = None, quirks: tuple[Quirk, ...] = ()) -> Report:
    """The run of this number, or the last one.  Raises OpdbError if there is none."""
    with store.reading() as connection:
        wanted = select(t.run).order_by(t.run.c.id.desc()).limit(1)
        if run is not None:
            wanted = select(t.run).where(t.run.c.id == run)
        head = connection.execute(wanted).first()
        if head is None:
            which = "no conformance run is kept here" if run is None else f"no run {run} is kept here"
            raise OpdbError(f"{store.name}: {which}; run: opdb conformance run")
        case, executor, result = t.conformance_case, t.executor, t.result
        query = (
            select(
                result, case.c.name, case.c.op, case.c.kind, case.c.backend, case.c.sdk, case.c.type_row, case.c.config,
                case.c.soc.label("case_soc"), executor.c.name.label("executor"), executor.c.version.label("executor_version"),
                executor.c.backend.label("measures"),
            )
            .join(case, result.c.conformance_case_id == case.c.id)
            .join(executor, result.c.executor_id == executor.c.id)
            .where(result.c.run_id == head.id)
        )  # fmt: skip
        expected: dict[int, list[str]] = {}
        for r in connection.execute(select(t.case_rule).order_by(t.case_rule.c.position)):
            expected.setdefault(r.conformance_case_id, []).append(r.rule)
        rows = [_row(r, expected.get(r.conformance_case_id, []), quirks) for r in connection.execute(query)]
    about = {
        k: getattr(head, k)
        for k in ("id", "started", "finished", "opdb_version", "catalog_hash", "seed", "command")
    }
    rows.sort(key=lambda r: (r["case"], r["executor"], r["soc"]))
    return Report(about, rows)


def _row(r: Any, expected: list[str], quirks: tuple[Quirk, ...]) -> dict[str, Any]:
    statuses = {c: getattr(r, c) for c in STATUS_COLUMNS}
    record = ResultRecord(
        CaseRecord(r.name, r.op, r.kind, r.config, rules=tuple(expected)),
        ExecutorRecord(r.executor, r.executor_version, r.measures),
        r.soc,
        **statuses,
        rules=tuple(r.rules.split()),
    )
    what, why = outcome(seen(record))
    if what in ("finding", "fail"):
        quirk = explain(quirks, r.executor_version, r.measures, r.name, statuses)
        what, why = ("known", quirk.what) if quirk is not None else (what, why)
    return {
        "case": r.name,
        "op": r.op,
        "kind": r.kind,
        "type_row": r.type_row,
        "backend": r.backend,
        "soc": r.soc,
        "sdk": r.sdk,
        "executor": r.executor,
        "executor_version": r.executor_version,
        "outcome": what,
        "why": why,
        **statuses,
        "expected": expected,
        "rules": r.rules.split(),
        "code": r.code,
        "code_name": r.code_name,
        "log": r.log,
        "error_max": r.error_max,
        "ulp": r.ulp,
        "seconds": r.seconds,
        "detail": r.detail,
        "config": r.config,
    }
