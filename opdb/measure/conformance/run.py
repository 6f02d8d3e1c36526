"""Runs cases on executors and keeps every answer in SQL.

A run is a list of lanes, one for each executor and SoC.  Results are written in batches, each in one
transaction, so a killed run can be continued.  Nothing here prints.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from sqlalchemy import select

from opdb.catalog import schema
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store import ResultRecord, RunRecord, Store
from opdb.catalog.targets.target import soc_name
from opdb.core.errors import MissingExtra, OpdbError
from opdb.core.pool import open_pool
from opdb.core.version import __version__
from opdb.measure.conformance.cases import DEFAULT_SOCS, Case, CaseSet, cases, read_config
from opdb.measure.conformance.executors import USUAL, open_executors, require_known
from opdb.measure.conformance.expected_failures import explain
from opdb.measure.conformance.expected_failures import reason as reason_of
from opdb.measure.conformance.judge import outcome, seen
from opdb.measure.conformance.lanes import Judge, Lane
from opdb.measure.conformance.shares import Question, answers, derived
from opdb.spec.catalog import Catalog

#: Results per transaction, and the longest time that one waits to be written, in seconds.
BATCH, WAIT = 200, 2.0
Done = set[tuple[str, str, str]]  # case, executor, SoC
Results = Iterator[tuple[Lane, ResultRecord]]


@dataclass(frozen=True)
class Progress:
    """The progress of a run: ``done`` of ``total`` answers, the last one from ``executor``."""

    done: int
    total: int
    executor: str
    soc: str
    case: str


@dataclass(frozen=True)
class Finding:
    """A result that is not a plain pass: "known", "finding" or "fail", and why."""

    outcome: str
    executor: str
    soc: str
    case: str
    reason: str


@dataclass
class RunSummary:
    """The outcome of a run; its rows are in SQL under ``run``."""

    run: int = 0
    cases: int = 0
    results: int = 0
    kept: int = 0  # answered before, in a continued run
    seconds: float = 0.0
    counts: dict[str, Counter[str]] = field(default_factory=dict)  # executor (and SoC) -> outcome -> number
    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)  # executors that are unavailable, and why
    unbroken: list[str] = field(default_factory=list)  # rules that no case breaks

    @property
    def ok(self) -> bool:
        """True if nothing failed, except for known failures."""
        return not any(f.outcome == "fail" for f in self.findings)


def run(
    catalog: Catalog,
    store: Store,
    ops: Sequence[str] | None = None,
    executors: Sequence[str] = USUAL,
    socs: Sequence[str] = DEFAULT_SOCS,
    seed: int = 0,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
    *,
    dask: str | None = None,
    only: Sequence[str] = (),
    resume: bool = False,
    command: str = "opdb conformance run",
) -> RunSummary:
    """Asks ``executors`` about the cases of ``ops`` (None: all) and records the answers.

    ``only``: ids of cases, or patterns; ``seed`` other than 0 makes other data; ``jobs``: processes, 1 is
    this one; ``dask``: the address of a scheduler whose workers do it instead; ``resume`` continues the last
    unfinished run of the same question.

    Raises OpdbError for an unknown op, executor, SoC or case, and like opdb.core.pool.open_pool; MissingExtra if no
    executor is available.  A missing executor is listed in ``missing`` if others are available.
    """
    started = time.monotonic()
    names = _known_ops(catalog, ops)
    chips = tuple(dict.fromkeys(soc_name(s) for s in socs))
    for name in executors:
        require_known(name)
    asked = Question(catalog, tuple(executors), chips, seed)
    with open_pool(asked, jobs, dask) if jobs > 1 or dask is not None else nullcontext() as pool:
        sets = derived(pool, names) if pool else [cases(catalog, name, chips) for name in names]
        chosen = _chosen(sets, only)
        summary = RunSummary(cases=len(chosen), unbroken=[r for s in sets for r in s.unbroken])
        lanes = _lanes(executors, chips, catalog, chosen, summary.missing)
        try:
            question = {"ops": names, "executors": list(executors), "socs": chips, "only": list(only)}
            record = RunRecord(__version__, catalog.hash, seed, command, json.dumps(question))
            summary.run, done = _begin(store, record, resume)
            for lane in lanes:
                left = [c for c in lane.cases if (c.id, lane.executor.name, lane.executor.soc) not in done]
                summary.kept += len(lane.cases) - len(left)
                lane.cases = left
            results = answers(pool, lanes) if pool else _one_by_one(lanes, Judge(catalog, seed))
            _record(store, summary, lanes, results, progress)
            _in_order(summary, lanes)
        finally:
            for lane in lanes:
                lane.executor.close()
    store.record_implications((i.rule, i.implied_by, i.why) for s in sets for i in s.implications)
    store.finish_run(summary.run)
    summary.seconds = time.monotonic() - started
    return summary


def _one_by_one(lanes: Sequence[Lane], judge: Judge) -> Results:
    for lane in lanes:
        for case in lane.cases:
            yield lane, judge.ask(lane, case)


def _known_ops(catalog: Catalog, ops: Sequence[str] | None) -> list[str]:
    for name in ops or ():
        if name not in catalog.ops:
            raise OpdbError(f"unknown op '{name}'; known: {', '.join(catalog.ops)}")
    return list(dict.fromkeys(ops)) if ops else list(catalog.ops)


def _chosen(sets: Sequence[CaseSet], only: Sequence[str]) -> list[Case]:
    every = [c for s in sets for c in s.cases]
    if not only:
        return every
    for pattern in only:
        if not any(fnmatchcase(c.id, pattern) for c in every):
            raise OpdbError(
                f"no case '{pattern}' among {len(every)}; a pattern may hold *, e.g. LayerNorm-sample0-*"
            )
    return [c for c in every if any(fnmatchcase(c.id, p) for p in only)]


def _lanes(
    names: Sequence[str], socs: tuple[str, ...], catalog: Catalog, chosen: Sequence[Case], missing: list[str]
) -> list[Lane]:
    """One lane for each available executor and SoC; the reasons why others are unavailable go to ``missing``."""
    lanes: list[Lane] = []
    last: OpdbError | None = None
    for name in dict.fromkeys(names):
        try:
            for executor in open_executors(name, socs, catalog):
                try:
                    lanes.append(Lane(executor, executor.record(), [c for c in chosen if executor.takes(c)]))
                except OpdbError:
                    executor.close()
                    raise
        except OpdbError as error:
            last = error
            missing.append(str(error) if isinstance(error, MissingExtra) else f"{name}: {error}")
    if not lanes and last is not None:
        raise last
    return lanes


def _begin(store: Store, record: RunRecord, resume: bool) -> tuple[int, Done]:
    """The number of a new run; or of the unfinished run of the same question, and its answers so far."""
    if resume:
        t = schema.run
        same = [t.c.finished.is_(None), t.c.catalog_hash == record.catalog_hash, t.c.seed == record.seed]
        with store.reading() as connection:
            query = select(t.c.id).where(*same, t.c.note == record.note).order_by(t.c.id.desc())
            found = connection.execute(query).scalar()
            if found is not None:
                return int(found), _answered(connection, int(found))
    return store.begin_run(record), set()


def _answered(connection: object, run_id: int) -> Done:
    result, case, executor = schema.result, schema.conformance_case, schema.executor
    query = (
        select(case.c.name, executor.c.name.label("executor"), result.c.soc)
        .join(case, result.c.conformance_case_id == case.c.id)
        .join(executor, result.c.executor_id == executor.c.id)
        .where(result.c.run_id == run_id)
    )
    return {(r.name, r.executor, r.soc) for r in connection.execute(query)}  # type: ignore[attr-defined]


def _record(
    store: Store,
    summary: RunSummary,
    lanes: Sequence[Lane],
    results: Results,
    progress: Callable[[Progress], None] | None,
) -> None:
    total, batch, written = sum(len(lane.cases) for lane in lanes), list[ResultRecord](), time.monotonic()
    try:
        for lane, record in results:
            batch.append(record)
            _count(summary, lane, record)
            if progress is not None:
                executor = lane.executor
                progress(Progress(summary.results, total, executor.name, executor.soc, record.case.name))
            if len(batch) >= BATCH or time.monotonic() - written > WAIT:
                store.record_results(summary.run, batch)
                batch, written = [], time.monotonic()
    finally:  # answers from before an interruption are kept
        if batch:
            store.record_results(summary.run, batch)


def _in_order(summary: RunSummary, lanes: Sequence[Lane]) -> None:
    """Sorts the summary, so that it does not depend on which process answers first."""
    summary.counts = {lane.name: summary.counts[lane.name] for lane in lanes if lane.name in summary.counts}
    every = ((lane.executor.name, lane.executor.soc, c.id) for lane in lanes for c in lane.cases)
    place = {key: number for number, key in enumerate(every)}
    summary.findings.sort(key=lambda f: place[f.executor, f.soc, f.case])


def _count(summary: RunSummary, lane: Lane, record: ResultRecord) -> None:
    summary.results += 1
    what, reason = outcome(seen(record))
    if what in ("finding", "fail"):
        statuses = {c: getattr(record, c) for c in STATUS_COLUMNS}
        config = read_config(record.case.config)
        erratum = explain(config, lane.record.backend, record.soc, lane.record.version, statuses)
        what, reason = ("known", reason_of(erratum)) if erratum is not None else (what, reason)
    summary.counts.setdefault(lane.name, Counter())[what] += 1
    if what in ("known", "finding", "fail"):
        detail = f"{reason}: {record.detail}" if what == "fail" and record.detail else reason
        summary.findings.append(Finding(what, record.executor.name, record.soc, record.case.name, detail))
