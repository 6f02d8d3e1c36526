"""Qualcomm's libraries on a small part of the cases; `make sweep` asks them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase

import pytest

from opdb import settings
from opdb.conformance.cases import Case, CaseSet, cases
from opdb.conformance.executors import EXECUTORS
from opdb.conformance.executors.base import Executor
from opdb.conformance.executors.torch_oracle import OPS
from opdb.conformance.gaps import gaps
from opdb.conformance.judge import outcome, seen
from opdb.conformance.lanes import Judge, Lane
from opdb.conformance.quirks import Quirk, explain, read_quirks
from opdb.conformance.run import run
from opdb.errors import MissingExtra
from opdb.schema import STATUS_COLUMNS
from opdb.spec.catalog import Catalog
from opdb.store import ResultRecord, Store

pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.torch]
Cases = Callable[[str], CaseSet]
QUIRKS = read_quirks(settings.specs_folder())
V68 = "SM8350"  # what only this chip does is asked of it


@pytest.fixture(scope="session", params=["qnn-cpu", "qnn-htp"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    try:
        made = EXECUTORS[request.param]("SM8650")
    except MissingExtra as missing:
        pytest.skip(str(missing))
    yield made
    made.close()


def few(made: CaseSet) -> list[Case]:
    """Of each type row the first two samples, and of each rule the first case that breaks it."""
    kept: dict[str, Case] = {}
    for case in made.cases:
        sample = case.id.split("-")[1]
        key = "+".join(case.rules) if case.kind == "negative" else f"{sample} {case.type_row}"
        if case.kind == "positive" and sample not in ("sample0", "sample1"):
            continue
        kept.setdefault(key, case)
    return list(kept.values())


def asked(catalog: Catalog, executor: Executor, cases: list[Case]) -> list[ResultRecord]:
    lane = Lane(executor, executor.record(), [])
    return [Judge(catalog).ask(lane, c) for c in cases if executor.takes(c)]


def quirk_of(executor: Executor, result: ResultRecord) -> Quirk | None:
    statuses = {c: getattr(result, c) for c in STATUS_COLUMNS}
    record = executor.record()
    return explain(QUIRKS, record.version, record.backend, result.case.name, statuses)


def unexplained(executor: Executor, results: list[ResultRecord]) -> list[str]:
    judged = [(r, *outcome(seen(r))) for r in results]
    wrong = [(r, why) for r, what, why in judged if what == "fail" and quirk_of(executor, r) is None]
    return [f"{r.case.name}: {why}: {r.detail}" for r, why in wrong]


#: Ops of whose few cases a library computes none rightly.  CPU: Fmod has the other sign; Relu1 and what comes after it
#: are refused, not finalized, or quirks of specs/sdk.  HTP 2.47 does not have GroupQueryAttention.
NEVER_RIGHT = {("CPU", op) for op in (
    "ElementWiseFmod", "Relu1", "ConstantOfShape", "Conv1d", "ExtractPatches", "GatherNd", "Gru",
    "OneHot", "ScatterNd", "TransposeConv1d",
)} | {("HTP", op) for op in ("ArgbToRgb", "ElementWiseMux", "GroupQueryAttention", "Gru", "HadamardTransform", "Lstm",
                                 "Nv21ToRgb", "OneHot")}  # fmt: skip


def test_numbers_are_pytorchs_or_a_known_quirk(
    op: str, catalog: Catalog, case_set: Cases, executor: Executor
) -> None:
    if executor.backend not in catalog.ops[op].backends:
        return
    results = asked(catalog, executor, few(case_set(op)))
    assert not unexplained(executor, results)
    expected = op in OPS and (executor.backend, op) not in NEVER_RIGHT
    assert any(r.matches == "yes" for r in results) == expected
    # Where the library takes what the documents refuse, the report says so; a few of an op are that.
    refused = [r for r in results if r.case.kind == "negative" and r.validates in ("yes", "no")]
    assert sum(r.validates == "no" for r in refused) >= 0.5 * len(refused)


def test_statuses_are_kept_apart(catalog: Catalog, case_set: Cases, executor: Executor) -> None:
    """No later stage says yes where an earlier one did not."""
    for op in ("LayerNorm", "Concat"):
        for r in asked(catalog, executor, list(case_set(op).cases)):
            stages = [r.validates, r.finalizes, r.executes, r.matches]
            ended = next((i for i, s in enumerate(stages) if s != "yes"), len(stages))
            assert "yes" not in stages[ended:], (r.case.name, stages)
            assert r.case.kind == "positive" or stages[1:] == ["unknown"] * 3
            if "no" in stages[:3]:
                assert r.code, r.case.name


def test_a_crash_is_a_result_and_the_next_case_runs(
    catalog: Catalog, case_set: Cases, executor: Executor
) -> None:
    """The validator of HTP ends its process on some encodings of MatMul's b without transpose_in1."""
    if executor.name != "qnn-htp":
        return
    made = case_set("MatMul").cases
    crashing = [c for c in made if fnmatchcase(c.id, "MatMul-H13-*")]
    fine = next(c for c in made if c.id == "MatMul-sample0-HTP.FP16.2-SM8650")
    results = asked(catalog, executor, [*crashing, fine])
    crashed = [r for r in results if r.validates == "crashed"]
    assert crashed and crashed[0].code_name == "SIGSEGV"
    assert (results[-1].executes, results[-1].matches) == ("yes", "yes")


def told(quirk: Quirk, results: list[ResultRecord]) -> str:
    """What a quirk says and what was seen instead."""
    seen = [f"{r.case.name}: {[getattr(r, c) for c in STATUS_COLUMNS]} {r.detail}" for r in results]
    return "\n".join([f"{quirk.op}: {quirk.what}", *seen])


def gone(catalog: Catalog, case_set: Cases, executor: Executor, quirks: list[Quirk]) -> list[str]:
    """Which of ``quirks`` no case shows.  Those of the same cases are one fault, whose symptom depends on the memory."""
    faults: dict[tuple[str, tuple[str, ...]], list[Quirk]] = {}
    for quirk in quirks:
        if quirk.backend == executor.backend and quirk.sdk == executor.record().version:
            faults.setdefault((quirk.op, quirk.cases), []).append(quirk)
    assert faults
    found = []
    for (op, patterns), of_cases in faults.items():
        matching = [c for c in case_set(op).cases if any(fnmatchcase(c.id, p) for p in patterns)]
        assert matching, f"{op}: no case is {patterns}"
        results = asked(catalog, executor, matching)
        shown = any(quirk_of(executor, r) in of_cases for r in results)
        if not shown and not all(q.sometimes for q in of_cases):
            found.append(told(of_cases[0], results))
    return found


def of_v68(quirk: Quirk) -> bool:
    return quirk.source.endswith(f" 2.47.0 {V68}")


@pytest.mark.breadth
def test_every_quirk_is_still_there(catalog: Catalog, case_set: Cases, executor: Executor) -> None:
    """A fault that is gone has to leave specs/sdk: its list is strict."""
    found = gone(catalog, case_set, executor, [q for q in QUIRKS if not of_v68(q)])
    assert not found, "\n".join(found)


@pytest.mark.breadth
def test_every_quirk_of_v68_is_still_there(catalog: Catalog) -> None:
    executor = EXECUTORS["qnn-htp"](V68)
    try:
        found = gone(catalog, lambda op: cases(catalog, op, (V68,)), executor, list(filter(of_v68, QUIRKS)))
    finally:
        executor.close()
    assert not found, "\n".join(found)


@pytest.mark.sweep
def test_everything(catalog: Catalog, store: Store) -> None:
    """All cases on all executors: no number is wrong that is not known to be; no rule is left out."""
    summary = run(catalog, store, jobs=2)
    assert summary.ok, "\n".join(
        f"{f.case} {f.executor}: {f.reason}" for f in summary.findings if f.outcome == "fail"
    )
    assert summary.missing == [] and summary.unbroken == []
    found = gaps(catalog, store)
    assert found.left == ()
    assert (found.code_not_spec, found.cases_not_spec, found.cases_not_code) == ((), (), ())
