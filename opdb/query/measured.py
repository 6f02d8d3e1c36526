"""Questions about what was measured: support, quirks, evidence, coverage of the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import pairwise
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select

from opdb import schema as t
from opdb.query.definitions import rules, type_rows
from opdb.query.rows import Record, Row, View, declared, same_sdk, version

Key = tuple[str, str, str, str, str]  # op, type row, backend, SoC, SDK
#: From the worst: one crash among many successes is what a user must know.
_WORST = ("crashed", "hung", "no", "yes", "not-applicable", "unknown")


def _results(view: View, latest: bool, kind: str | None = None) -> list[Record]:
    """Results with their cases, executors and libraries; ``latest``: of each case only the last one."""
    result, case, executor, library = t.result, t.conformance_case, t.executor, t.library
    query = (
        select(
            *(c for c in result.c if c.name not in ("run_id", "conformance_case_id", "executor_id")),
            *(case.c[c] for c in ("name", "op", "kind", "backend", "type_row", "sdk", "config")),
            executor.c.name.label("executor"),
            executor.c.version,
            executor.c.backend.label("measures"),
            library.c.package,
            library.c.version.label("package_version"),
            library.c.sdk.label("library_sdk"),
            library.c.emulated,
            t.run.c.uid,
            t.run.c.started,
        )
        .join(case, result.c.conformance_case_id == case.c.id)
        .join(executor, result.c.executor_id == executor.c.id)
        .join(t.run, result.c.run_id == t.run.c.id)
        .join(library, executor.c.library_id == library.c.id, isouter=True)
        .order_by(result.c.id)
    )
    if kind is not None:
        query = query.where(case.c.kind == kind)
    if view.filters.op is not None:
        query = query.where(case.c.op == view.filters.op)
    if latest:
        newest = (
            select(func.max(result.c.id))
            .join(case, result.c.conformance_case_id == case.c.id)
            .group_by(case.c.name, result.c.executor_id, result.c.soc)
        )
        query = query.where(result.c.id.in_(newest))
    return view.all(query)


def _probes(view: View, *conditions: Any) -> list[Record]:
    probe, library, f = t.probe_result, t.library, view.filters
    query = (
        select(
            *(c for c in probe.c if c.name not in ("probe_run_id", "position")),
            library.c.package,
            library.c.version.label("package_version"),
            library.c.emulated,
            t.probe_run.c.uid,
            t.probe_run.c.started,
        )
        .join(t.probe_run, probe.c.probe_run_id == t.probe_run.c.id)
        .join(library, t.probe_run.c.library_id == library.c.id)
        .order_by(probe.c.id)
        .where(*conditions)
    )
    if f.op is not None:
        query = query.where(probe.c.op == f.op)
    return view.all(query)


def _disagreement() -> ColumnElement[bool]:
    """Whether a library took what we reject, refused what we accept, or answered what we cannot judge."""
    ours, said = t.probe_result.c.ours, t.probe_result.c.validates
    return or_(
        and_(ours == "accept", said.in_(("no", "crashed", "hung"))),
        and_(ours == "reject", said == "yes"),
        and_(ours == "unknown", said.in_(("yes", "no", "crashed", "hung"))),
    )


def evidence(view: View) -> list[Row]:
    """Everything that was measured, by probes and by conformance runs, oldest first.

    With ``disagree`` what the last sweeps over each op found, of probes alone.
    """
    out = []
    conditions: list[Any] = []
    if view.filters.disagree:
        runs = [r.id for group in _sweeps(view).values() for r in group]
        conditions = [t.probe_result.c.probe_run_id.in_(runs), _disagreement()]
    for r in _probes(view, *conditions):
        row = _evidence_row(r, "probe", r.backend, r.sdk)
        out.append(row | {"case": None, "case_kind": None, "executor": None, "executor_version": None})
    for r in [] if view.filters.disagree else _results(view, latest=False):
        row = _evidence_row(r, "conformance", r.measures or r.backend, r.library_sdk or r.sdk)
        more = {"case": r.name, "case_kind": r.kind, "executor": r.executor, "executor_version": r.version}
        out.append(row | more)
    kept = [r for r in out if _wanted(view, r)]
    if view.dtype is not None:
        rows = {(r["op"], r["type_row"]) for r in type_rows(view)}
        kept = [r for r in kept if (r["op"], r["type_row"]) in rows]
    return sorted(kept, key=lambda r: str(r["started"]))


def _evidence_row(r: Record, kind: str, backend: str, sdk: str) -> Row:
    def of(name: str) -> Any:
        return getattr(r, name, None)

    return {
        "kind": kind,
        "run": r.uid,
        "started": r.started,
        "op": r.op,
        "type_row": r.type_row or None,
        "backend": backend or None,
        "soc": r.soc or None,
        "sdk": sdk or None,
        **{c: of(c) for c in t.STATUS_COLUMNS},
        "ours": of("ours") or None,
        "rules": of("rules") or None,
        "reasons": of("reasons") or None,
        "code": r.code,
        "code_name": r.code_name or None,
        "log": r.log or None,
        "error_max": of("error_max"),
        "ulp": of("ulp"),
        "seconds": r.seconds,
        "detail": r.detail or None,
        "package": r.package,
        "package_version": r.package_version,
        "emulated": None if r.emulated is None else bool(r.emulated),
        "config": r.config,
    }


def _wanted(view: View, row: Row) -> bool:
    f = view.filters
    return (
        (f.backend is None or row["backend"] == f.backend)
        and (f.soc is None or row["soc"] == f.soc)
        and (f.sdk is None or (row["sdk"] is not None and same_sdk(f.sdk, row["sdk"])))
    )


def agreement(view: View) -> list[Row]:
    """How often the last sweeps over each op agree with us, both ways, for each library and SoC."""
    out = [_agreement_row(view, [r.id for r in group], group[0]) for group in _sweeps(view).values()]
    rows = [row for row in out if row is not None and _wanted(view, row)]
    return sorted(rows, key=lambda r: (r["op"], r["backend"], r["soc"] or "", version(r["sdk"])))


def agreement_of_runs(view: View, runs: Collection[int]) -> list[Row]:
    """The same for single probe runs, in their order."""
    found = {r.id: r for r in view.all(_sweep_query().where(t.probe_run.c.id.in_(runs)))}
    rows = [_agreement_row(view, [i], found[i]) for i in runs if i in found]
    return [row for row in rows if row is not None]


def _sweep_query() -> Select[Any]:
    run, library = t.probe_run, t.library
    return (
        select(
            run.c.id, run.c.op, run.c.soc, run.c.catalog_hash, run.c.note, run.c.library_id, library.c.backend,
            library.c.sdk, library.c.package, library.c.version.label("package_version"),
        )
        .join(library, run.c.library_id == library.c.id)
        .where(run.c.op != "", exists().where(t.probe_result.c.probe_run_id == run.c.id))
        .order_by(run.c.id)
    )  # fmt: skip


def _sweeps(view: View) -> dict[tuple[Any, ...], list[Record]]:
    """The sweeps over each op, library and SoC whose configs and rules are those of the last one with answers."""
    last: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for r in view.all(_sweep_query()):
        key, meaning = (r.op, r.library_id, r.soc), (r.catalog_hash, r.note)
        last[key] = meaning
        groups[*key, *meaning].append(r)
    return {k: v for k, v in groups.items() if last[k[:3]] == k[3:] and view.filters.op in (None, k[0])}


def _agreement_row(view: View, runs: list[int], about: Record) -> Row | None:
    """The counts over some runs; None where nothing has been answered."""
    ours, said = t.probe_result.c.ours, t.probe_result.c.validates
    query = select(ours, said, func.count().label("n")).where(t.probe_result.c.probe_run_id.in_(runs))
    counts = {(r.ours, r.validates): int(r.n) for r in view.all(query.group_by(ours, said))}
    if not counts:
        return None

    def of(mine: tuple[str, ...], theirs: tuple[str, ...]) -> int:
        return sum(n for (o, s), n in counts.items() if o in mine and s in theirs)

    every = ("accept", "reject", "unknown")
    n = of(every, ("yes", "no"))
    both = of(("accept",), ("yes",)) + of(("reject",), ("no",))
    return {
        "op": about.op,
        "backend": about.backend,
        "soc": about.soc or None,
        "sdk": about.sdk,
        "n": n,
        "both_accept": of(("accept",), ("yes",)),
        "both_reject": of(("reject",), ("no",)),
        "we_accept_it_rejects": of(("accept",), ("no",)),
        "we_reject_it_accepts": of(("reject",), ("yes",)),
        "undecided": of(("unknown",), ("yes", "no")),
        "crashed": of(every, ("crashed", "hung")),
        "percent": round(100 * both / n, 2) if n else None,
        "package": about.package,
        "package_version": about.package_version,
    }


def _measured(view: View) -> dict[Key, list[Record]]:
    """What the vendor's libraries made of acceptable configs, by what was asked."""
    found: dict[Key, list[Record]] = defaultdict(list)
    for r in _results(view, latest=True, kind="positive"):
        if r.measures and r.type_row:
            found[r.op, r.type_row, r.measures, r.soc, r.library_sdk or r.sdk].append(r)
    for r in _probes(view, t.probe_result.c.type_row != ""):
        found[r.op, r.type_row, r.backend, r.soc, r.sdk].append(r)
    return found


def support(view: View) -> list[Row]:
    """The five statuses of every documented or measured (op, type row, backend, SoC, SDK)."""
    return [row for row, _ in _support(view)]


def _support(view: View) -> list[tuple[Row, list[Record]]]:
    """Each row of ``support``, with the measurements behind it."""
    documented = {(r["op"], r["type_row"]): r for r in type_rows(view)}
    measured = _measured(view)
    sdks = _measured_sdks(view, measured)
    keys: dict[Key, None] = {}
    for (op, type_row), row in documented.items():
        for soc in _socs(view, row["backend"]):
            for sdk in _sdks(view, row, sdks):
                keys[op, type_row, row["backend"], soc, sdk] = None
    if view.dtype is None and view.filters.torch_op is None:
        keys |= dict.fromkeys(sorted(k for k in measured if _asked(view, k)))
    by_place: dict[tuple[str, ...], list[Key]] = defaultdict(list)
    for key in measured:
        by_place[key[:4]].append(key)
    out = []
    for key in keys:
        records = [r for k in by_place[key[:4]] if same_sdk(k[4], key[4]) for r in measured[k]]
        out.append((_support_row(key, documented.get(key[:2], {}), records), records))
    return out


def _asked(view: View, key: Key) -> bool:
    _, _, backend, soc, sdk = key
    return view.wants_backend(backend) and view.filters.soc in (None, soc) and view.wants_sdk(sdk)


def _socs(view: View, backend: str) -> list[str]:
    """The SoCs that are asked about; '' for a backend whose verdicts do not depend on one."""
    if not view.per_soc(backend):
        return [""] if view.filters.soc is None else []
    return view.chips if view.filters.soc is None else [view.filters.soc]


def _sdks(view: View, row: Row, measured: dict[str, set[str]]) -> list[str]:
    """The measured SDKs among those that are asked about; else the one asked about, or that of the document."""
    found = {sdk for sdk in measured[row["backend"]] if view.wants_sdk(sdk)}
    if not found and view.filters.sdk is not None:
        return [view.filters.sdk]
    if not found and row["source"]:
        found = {row["source"].partition("#")[0].partition("@")[2]}
    return sorted(found, key=version)


def _measured_sdks(view: View, measured: dict[Key, list[Record]]) -> dict[str, set[str]]:
    """The SDKs whose libraries were measured, by backend, whatever op the view is narrowed to."""
    out: dict[str, set[str]] = defaultdict(set)
    for r in view.all(select(t.library.c.backend, t.library.c.sdk)):
        out[r.backend].add(r.sdk)
    for _, _, backend, _, sdk in measured:
        out[backend].add(sdk)
    return out


def _support_row(key: Key, documented: Row, records: list[Record]) -> Row:
    op, type_row, backend, soc, sdk = key
    statuses = {c: _worst([getattr(r, c, "unknown") for r in records]) for c in t.STATUS_COLUMNS}
    known = bool(documented) and declared(documented["since"], documented["until"], sdk)
    return {
        "op": op,
        "type_row": type_row,
        "cells": documented.get("cells"),
        "backend": backend,
        "soc": soc or None,
        "sdk": sdk,
        **statuses,
        "declared": "yes" if known else "no",
        "measurements": len(records),
        "source": documented.get("source"),
    }


def _worst(statuses: list[str]) -> str:
    return min(statuses, key=_WORST.index, default="unknown")


def quirks(view: View) -> list[Row]:
    """Where a document and the library disagree, or two stages of the library, or the library and PyTorch."""
    out = []
    for row, records in _support(view):
        for before, after in pairwise(t.STATUS_COLUMNS):
            had, got = row[before], row[after]
            if got in ("crashed", "hung") or (had, got) in (("yes", "no"), ("no", "yes")):
                behind = [r for r in records if getattr(r, after, None) == got]
                out.append(_quirk(row, f"{before} {had}, {after} {got}", behind))
    return out + _lax(view)


def _lax(view: View) -> list[Row]:
    """Configs that break a documented rule and that the library takes all the same."""
    rules: dict[str, list[str]] = defaultdict(list)
    case, rule = t.conformance_case, t.case_rule
    query = select(case.c.name, rule.c.rule).join(case, rule.c.conformance_case_id == case.c.id)
    for r in view.all(query.order_by(rule.c.conformance_case_id, rule.c.position)):
        rules[r.name].append(r.rule)
    cells = {(r["op"], r["type_row"]): r["cells"] for r in type_rows(view)}
    out = []
    for r in _results(view, latest=True, kind="negative"):
        key = (r.op, r.type_row, r.measures, r.soc, r.library_sdk or r.sdk)
        if not r.measures or r.validates != "yes" or not _asked(view, key):
            continue
        if (view.dtype or view.filters.torch_op) and key[:2] not in cells:
            continue
        row = dict(zip(("op", "type_row", "backend", "soc", "sdk"), (v or None for v in key), strict=True))
        broken = ", ".join(dict.fromkeys(rules[r.name])) or "a rule"
        out.append(_quirk(row | {"cells": cells.get(key[:2])}, f"breaks {broken}, validates yes", [r]))
    return out


def _quirk(row: Row, what: str, records: list[Record]) -> Row:
    first = records[0] if records else None

    def of(name: str) -> Any:
        return getattr(first, name, None)

    emulated = of("emulated")
    return {k: row[k] for k in ("op", "type_row", "cells", "backend", "soc", "sdk")} | {
        "quirk": what,
        "emulated": None if emulated is None else bool(emulated),
        "package": of("package"),
        "package_version": of("package_version"),
        "case": of("name"),
        "code": of("code"),
        "code_name": of("code_name") or None,
        "log": of("log") or None,
        "run": of("uid"),
        "measurements": len(records),
    }


def coverage(view: View) -> list[Row]:
    """For each rule: where it is, and which cases tried it.  Counts of the latest result of each case.

    ``python`` and ``c``: results in which that validator reported the rule; ``positive``: accepted cases in
    which the rule was in force; ``negative``: cases made to break it; ``executed``: results of those.
    """
    results = _results(view, latest=True)
    expected: dict[str, set[str]] = defaultdict(set)  # rule -> names of cases
    rule_rows = view.all(
        select(t.case_rule.c.rule, t.conformance_case.c.name).join(
            t.conformance_case, t.case_rule.c.conformance_case_id == t.conformance_case.c.id
        )
    )
    tried = {r.name for r in results}
    for r in rule_rows:
        if r.name in tried:
            expected[r.rule].add(r.name)
    reported: dict[tuple[str, str], int] = defaultdict(int)
    positive: dict[str, dict[str, str]] = defaultdict(dict)  # op -> case -> backend
    runs: dict[str, int] = defaultdict(int)
    for r in results:
        runs[r.name] += 1
        for rule in r.rules.split():
            reported[rule, r.executor] += 1
        if r.kind == "positive":
            positive[r.op][r.name] = r.backend
    implied: dict[str, list[str]] = defaultdict(list)
    for r in view.all(select(t.implication).order_by(t.implication.c.id)):
        implied[r.rule].append(r.implied_by)
    out = []
    for row in rules(view):
        rule = row["rule"]
        good = [c for c, b in positive[row["op"]].items() if row["backend"] in (None, b)]
        cases = {*good, *expected[rule]}
        out.append(
            {
                "op": row["op"],
                "rule": rule,
                "backend": row["backend"],
                "stated": 1,
                "python": reported[rule, "python"],
                "c": reported[rule, "c"],
                "positive": len(good),
                "negative": len(expected[rule]),
                "executed": sum(runs[c] for c in cases),
                "implied_by": ", ".join(implied[rule]) or None,
            }
        )
    return out
