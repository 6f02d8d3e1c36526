"""Writes and reads data that specs cannot restore: probes, runs, results."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple
from typing import Any

from sqlalchemy import Connection, Table, delete, func, insert, select, update

from opdb.catalog import schema as t
from opdb.catalog.store.records import (
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ProbeRunRecord,
    ResultRecord,
    RunRecord,
)
from opdb.core.errors import OpdbError

Natural = Mapping[str, Any]


def _insert(connection: Connection, table: Table, row: Natural) -> int:
    key = connection.execute(insert(table), row).inserted_primary_key
    assert key is not None
    return int(key[0])


def _find_or_insert(connection: Connection, table: Table, natural: Natural, more: Natural) -> int:
    conditions = [table.c[k] == v for k, v in natural.items()]
    found = connection.execute(select(table.c.id).where(*conditions)).scalar()
    return int(found) if found is not None else _insert(connection, table, {**natural, **more})


def record_library(connection: Connection, record: LibraryRecord) -> int:
    natural = asdict(record)
    more = {k: natural.pop(k) for k in ("sdk", "emulated")}
    return _find_or_insert(connection, t.library, natural, more)


def begin_run(
    connection: Connection, table: Table, record: RunRecord, library: LibraryRecord | None = None
) -> int:
    row = asdict(record)
    if library is not None:
        row["library_id"] = record_library(connection, library)
    return _insert(connection, table, row)


def finish_run(connection: Connection, table: Table, run: int, finished: str) -> None:
    connection.execute(update(table).where(table.c.id == run).values(finished=finished))


def _executor(connection: Connection, record: ExecutorRecord) -> int:
    library = None if record.library is None else record_library(connection, record.library)
    natural = {"name": record.name, "version": record.version}
    return _find_or_insert(
        connection, t.executor, natural, {"backend": record.backend, "library_id": library}
    )


def _full(op: str, rules: Sequence[str]) -> list[str]:
    """Prefixes rules with their op, e.g. C3 -> LayerNorm.C3; leaves erratum ids, e.g. HTP-0042, unchanged."""
    return [r if "." in r or "-" in r else f"{op}.{r}" for r in dict.fromkeys(rules)]


def _case(connection: Connection, record: CaseRecord) -> int:
    content = json.dumps(astuple(record), ensure_ascii=True)
    natural = {"name": record.name, "sha256": hashlib.sha256(content.encode()).hexdigest()}
    row = {k: v for k, v in asdict(record).items() if k not in ("name", "rules")}
    conditions = [t.conformance_case.c[k] == v for k, v in natural.items()]
    found = connection.execute(select(t.conformance_case.c.id).where(*conditions)).scalar()
    if found is not None:
        return int(found)
    ident = _insert(connection, t.conformance_case, {**natural, **row})
    rules = [
        {"conformance_case_id": ident, "position": i, "rule": r}
        for i, r in enumerate(_full(record.op, record.rules))
    ]
    if rules:
        connection.execute(insert(t.case_rule), rules)
    return ident


def record_results(connection: Connection, run: int, records: Iterable[ResultRecord]) -> set[str]:
    """Adds results to a run, replacing those of the same case, executor, and SoC (on resume); returns their ops."""
    executors: dict[ExecutorRecord, int] = {}
    cases: dict[CaseRecord, int] = {}
    for record in records:
        _known_statuses(record, t.STATUS_COLUMNS)
        executor = executors.get(record.executor) or executors.setdefault(
            record.executor, _executor(connection, record.executor)
        )
        case = cases.get(record.case) or cases.setdefault(record.case, _case(connection, record.case))
        natural = {"run_id": run, "conformance_case_id": case, "executor_id": executor, "soc": record.soc}
        connection.execute(delete(t.result).where(*(t.result.c[k] == v for k, v in natural.items())))
        row = {k: v for k, v in vars(record).items() if k not in ("case", "executor", "soc", "rules")}
        row |= {"log": _printable(record.log)}
        row |= {
            "detail": _printable(record.detail),
            "error_max": _number(record.error_max),
            "ulp": _number(record.ulp),
            "magnitude": _number(record.magnitude),
        }
        ident = _insert(connection, t.result, {**natural, **row})
        rules = [
            {"result_id": ident, "position": i, "rule": r}
            for i, r in enumerate(_full(record.case.op, record.rules))
        ]
        if rules:
            connection.execute(insert(t.result_rule), rules)
    return {case.op for case in cases}


def continue_probe_run(
    connection: Connection, record: ProbeRunRecord, library: LibraryRecord
) -> tuple[int, frozenset[int]]:
    """Returns the last sweep with the same parameters, else a new one, and its answered positions."""
    same = {k: getattr(record, k) for k in ("op", "soc", "seed", "catalog_hash", "note")}
    same["library_id"] = record_library(connection, library)
    run, result = t.probe_run, t.probe_result
    conditions = [run.c[k] == v for k, v in same.items()]
    found = connection.execute(select(run.c.id).where(*conditions).order_by(run.c.id.desc())).scalar()
    if found is None:
        return begin_run(connection, run, record, library), frozenset()
    answered = connection.execute(select(result.c.position).where(result.c.probe_run_id == found)).scalars()
    return int(found), frozenset(answered)


def record_probes(connection: Connection, run: int, records: Iterable[ProbeRecord]) -> set[str]:
    """Adds probes to a run at their positions, or after the last one; keeps positions already recorded.

    Returns the ops.
    """
    records = list(records)
    position = t.probe_result.c.position
    mine = t.probe_result.c.probe_run_id == run
    last = connection.execute(select(func.max(position)).where(mine)).scalar()
    wanted = [r.position for r in records if r.position is not None]
    between = position.between(min(wanted), max(wanted)) if wanted else mine
    there = set(connection.execute(select(position).where(mine, between)).scalars()) if wanted else set()
    rows = []
    for i, record in enumerate(records, 0 if last is None else last + 1):
        _known_statuses(record, ("validates", "finalizes", "executes"))
        place = i if record.position is None else record.position
        if place not in there:
            row = asdict(record) | {"probe_run_id": run, "position": place}
            row |= {"log": _printable(record.log), "detail": _printable(record.detail)}
            row |= {"rules": " ".join(_full(record.op, record.rules)), "reasons": _printable(record.reasons)}
            rows.append(row)
    if rows:
        connection.execute(insert(t.probe_result), rows)
    return {r.op for r in records}


def record_implications(connection: Connection, implications: Iterable[tuple[str, str, str]]) -> None:
    """Replaces the triples (rule, the rule that implies it, why) of the ops they name."""
    rows = list(dict.fromkeys(implications))
    ops = {rule.partition(".")[0] for rule, _, _ in rows}
    for op in sorted(ops):
        connection.execute(
            delete(t.implication).where(t.implication.c.rule.startswith(f"{op}.", autoescape=True))
        )
    if rows:
        connection.execute(
            insert(t.implication), [{"rule": r, "implied_by": b, "why": w} for r, b, w in rows]
        )


def _known_statuses(record: ResultRecord | ProbeRecord, columns: Sequence[str]) -> None:
    for column in columns:
        if getattr(record, column) not in t.STATUSES:
            raise OpdbError(
                f"'{getattr(record, column)}' is not a status of '{column}'; one of {', '.join(t.STATUSES)}"
            )


def _printable(text: str) -> str:
    """Escapes text so that every database accepts it; a vendor's log may contain anything."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def _number(value: float | None) -> float | None:
    """Replaces NaN, which SQL lacks, with infinity."""
    return math.inf if value is not None and math.isnan(value) else value
