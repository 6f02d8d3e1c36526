"""Turns local conformance results into evidence, to hand to a colleague."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from opdb.catalog.evidence import STAGES, Cell, Evidence, Run
from opdb.catalog.store import Store
from opdb.catalog.store.records import ExecutorRecord, LibraryRecord, ResultRecord
from opdb.measure.conformance.cases import Case, read_config
from opdb.measure.evidence.build import host
from opdb.measure.evidence.measure import Row, outcome_of

#: The last result of each accepted case in a type row, by a library that identified itself.
_RESULTS = """
SELECT v.id, v."case", v.op, v.type_row, v.backend, v.soc, v.sdk, v.code, v.code_name, v.log, v.started, v.emulated,
       v.package, v.package_version, v.declared, v.validates, v.finalizes, v.executes, v.matches, k.config, r.detail,
       l.build_id, l.sha256, u.seed, u.opdb_version
FROM v_results AS v
JOIN result AS r ON r.id = v.id
JOIN conformance_case AS k ON k.id = r.conformance_case_id
JOIN executor AS e ON e.id = r.executor_id
JOIN library AS l ON l.id = e.library_id
JOIN run AS u ON u.id = r.run_id
WHERE v.kind = 'positive' AND v.type_row <> ''
ORDER BY v.id"""


def own_evidence(store: Store) -> Evidence:
    """Returns the conformance results of a database; they have all cases of a run, so ``limit`` is 0."""
    groups: dict[tuple[str, str, Run], list[Any]] = defaultdict(list)
    with store.asking() as reader:
        for found in reader.rows(_RESULTS):
            groups[found["op"], found["type_row"], _run(found)].append(dict(found))
    newest: dict[tuple[str, ...], str] = {}
    for op, row, run in groups:  # a row whose cases were run on several days takes the last one
        key = (op, row, run.backend, run.sdk, run.soc)
        newest[key] = max(newest.get(key, ""), run.date)
    return Evidence.of(
        _cell(op, row, run, results)
        for (op, row, run), results in sorted(groups.items(), key=lambda e: e[0][2].date)
        if run.date == newest[op, row, run.backend, run.sdk, run.soc]
    )


def _run(found: Any) -> Run:
    return Run(
        backend=found["backend"], sdk=found["sdk"], soc=found["soc"],
        execution="emulator" if found["emulated"] else "host", package=found["package"],
        version=found["package_version"], build_id=found["build_id"], sha256=found["sha256"],
        date=found["started"][:10], host=host(), generator=f"opdb {found['opdb_version']}", seed=found["seed"] or 0,
    )  # fmt: skip


def _cell(op: str, row: str, run: Run, results: list[Any]) -> Cell:
    cases = tuple(
        Case(
            r["case"].removesuffix(f"-{run.soc}"),
            read_config(r["config"]),
            "positive",
            run.backend,
            run.soc,
            row,
        )
        for r in results
    )
    library = LibraryRecord(
        run.package, run.version, run.build_id, run.sha256, run.backend, run.sdk, run.execution == "emulator"
    )
    executor = ExecutorRecord(f"qnn-{run.backend.lower()}", run.sdk, run.backend, library)
    records = [
        ResultRecord(
            case.record(), executor, run.soc, declared=r["declared"], code=r["code"], code_name=r["code_name"],
            log=r["log"], detail=r["detail"], **{stage: r[stage] for stage in STAGES},
        )
        for case, r in zip(cases, results, strict=True)
    ]  # fmt: skip
    return Cell("op", op, row, run, outcome_of(Row(op, row, cases), records, run.sdk))
