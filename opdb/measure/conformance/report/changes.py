"""Changes since the previous run: compares the last result of each case and executor with the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select

from opdb.measure.conformance.report.rows import Row
from opdb.catalog.schema import (STATUS_COLUMNS, conformance_case, executor, result)
from opdb.catalog.schema import run as run_table
from opdb.catalog.store import Store


@dataclass(frozen=True)
class Change:
    """A status that was ``before`` in the run ``since`` and is ``after`` in the last one."""

    op: str
    case: str
    place: str
    status: str
    before: str
    after: str
    since: str  # start time of that run
    version_before: str  # of the executor
    version_after: str

    @property
    def better(self) -> bool:
        return self.after == "yes"


def changes(store: Store, rows: Sequence[Row]) -> tuple[Change, ...]:
    """The changed statuses, regressions first.  Cases without an earlier result are left out."""
    last = {(r.case, r.executor, r.soc): r for r in rows}
    earlier = _earlier(store, last)
    found = [
        Change(
            row.op, row.case, row.place, status, before[status], getattr(row, status), before["started"],
            before["version"], row.executor_version,
        )
        for key, row in last.items() if (before := earlier.get(key)) is not None
        for status in STATUS_COLUMNS if before[status] != getattr(row, status)
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda c: c.better))


def _earlier(
    store: Store, last: dict[tuple[str, str, str], Row]
) -> dict[tuple[str, str, str], dict[str, str]]:
    """The latest result of each of ``last`` in a run before its own."""
    query = (
        select(
            *(result.c[s] for s in STATUS_COLUMNS),
            result.c.soc, conformance_case.c.name, executor.c.name.label("executor"), executor.c.version,
            run_table.c.uid, run_table.c.started,
        )
        .join(conformance_case, result.c.conformance_case_id == conformance_case.c.id)
        .join(executor, result.c.executor_id == executor.c.id)
        .join(run_table, result.c.run_id == run_table.c.id)
        .order_by(result.c.run_id)
    )  # fmt: skip
    found: dict[tuple[str, str, str], dict[str, str]] = {}
    over: set[tuple[str, str, str]] = set()  # their own run has been reached
    with store.reading() as connection:
        for r in connection.execute(query).mappings():
            key = (r["name"], r["executor"], r["soc"])
            if key not in last or key in over:
                continue
            if r["uid"] == last[key].run:
                over.add(key)
            else:
                found[key] = {k: str(r[k]) for k in (*STATUS_COLUMNS, "started", "version")}
    return found
