"""Qualcomm's libraries on a small part of the cases; `make sweep` runs them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store import ResultRecord, Store
from opdb.core.errors import MissingExtra
from opdb.core.sdk import declared
from opdb.judge.errata.records import RECORDS
from opdb.measure.conformance.cases import Case, CaseSet, read_config
from opdb.measure.conformance.executors import EXECUTORS
from opdb.measure.conformance.executors.base import Executor
from opdb.measure.conformance.executors.torch_oracle import OPS
from opdb.measure.conformance.expected_failures import explain, reason
from opdb.measure.conformance.gaps import gaps
from opdb.measure.conformance.judge import outcome, seen
from opdb.measure.conformance.lanes import Judge, Lane
from opdb.measure.conformance.reprobe import observe
from opdb.measure.conformance.reproductions import reproduction
from opdb.measure.conformance.run import run
from opdb.runtime.errata import Erratum
from opdb.runtime.qnn.libraries import Libraries
from opdb.spec.catalog import Catalog

pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.torch, pytest.mark.slow, pytest.mark.by_op]
Cases = Callable[[str], CaseSet]
V68 = "SM8350"  # for faults that only this chip has


@pytest.fixture(scope="session", params=["qnn-cpu", "qnn-htp"])
def executor(request: pytest.FixtureRequest, catalog: Catalog) -> Iterator[Executor]:
    try:
        made = EXECUTORS[request.param]("SM8650", catalog)
    except MissingExtra as missing:
        pytest.skip(str(missing))
    yield made
    made.close()


def few(made: CaseSet) -> list[Case]:
    """The first two samples of each type row, and the first case that breaks each rule."""
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


def statuses(result: ResultRecord) -> dict[str, str]:
    return {c: getattr(result, c) for c in STATUS_COLUMNS}


def erratum_of(executor: Executor, result: ResultRecord) -> Erratum | None:
    record = executor.record()
    config = read_config(result.case.config)
    return explain(config, record.backend, executor.soc, record.version, statuses(result))


def unexplained(executor: Executor, results: list[ResultRecord]) -> list[str]:
    judged = [(r, *outcome(seen(r))) for r in results]
    wrong = [(r, why) for r, what, why in judged if what == "fail" and erratum_of(executor, r) is None]
    return [f"{r.case.name}: {why}: {r.detail}" for r, why in wrong]


#: Ops of which a library computes none of the few cases correctly.  CPU: Fmod has the other sign; Relu1 and the following
#: are refused, not finalized, or meet records of specs/errata.  HTP 2.47 does not have GroupQueryAttention.
NEVER_RIGHT = {("CPU", op) for op in (
    "ElementWiseFmod", "Relu1", "ConstantOfShape", "Conv1d", "ExtractPatches", "GatherNd", "Gru",
    "OneHot", "ScatterNd", "TransposeConv1d",
)} | {("HTP", op) for op in ("ArgbToRgb", "ElementWiseMux", "GroupQueryAttention", "Gru", "HadamardTransform", "Lstm",
                                 "Nv21ToRgb", "OneHot")}  # fmt: skip


def test_results_match_pytorch_or_a_known_erratum(
    op: str, catalog: Catalog, case_set: Cases, executor: Executor
) -> None:
    if executor.backend not in catalog.ops[op].backends:
        return
    results = asked(catalog, executor, few(case_set(op)))
    assert not unexplained(executor, results)
    expected = op in OPS and (executor.backend, op) not in NEVER_RIGHT
    assert any(r.matches == "yes" for r in results) == expected
    # The report notes cases that the library accepts against the documents; an op has a few.
    refused = [r for r in results if r.case.kind == "negative" and r.validates in ("yes", "no")]
    assert sum(r.validates == "no" for r in refused) >= 0.5 * len(refused)


def test_stages_are_reported_in_order(catalog: Catalog, case_set: Cases, executor: Executor) -> None:
    """No later stage says yes if an earlier one did not."""
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
    """HTP's validator crashes on some encodings of MatMul's b without transpose_in1."""
    if executor.name != "qnn-htp":
        return
    made = case_set("MatMul").cases
    fine = next(c for c in made if c.id == "MatMul-sample0-HTP.FP16.2-SM8650")
    (config,) = reproduction(catalog, catalog.errata["HTP-0052"], fine.target)
    crashed, after = asked(catalog, executor, [replace(fine, id="MatMul-crash", config=config), fine])
    assert (crashed.validates, crashed.code_name) == ("crashed", "SIGSEGV")
    assert outcome(seen(crashed))[0] == "finding" and erratum_of(executor, crashed) == RECORDS["HTP-0052"]
    assert (after.executes, after.matches) == ("yes", "yes")


#: Errata whose reproduction cannot tell: PyTorch and the documents have no result to compare with, or another fault comes first.
CANNOT_TELL = {
    "HTP-0306",
    "HTP-0390",
    "HTP-0421",
    "HTP-0431",
    "HTP-0432",
    "HTP-0442",
    "HTP-0443",
    "HTP-0444",
    "HTP-0445",
}


@pytest.mark.breadth
@pytest.mark.parametrize(
    ("backend", "soc", "own"),
    [("CPU", "", False), ("HTP", "SM8650", False), ("HTP", V68, True)],
    ids=["CPU", "HTP", "HTP-v68"],
)
def test_every_erratum_still_occurs(
    catalog: Catalog, libraries: Libraries, backend: str, soc: str, own: bool
) -> None:
    """A fault that no longer occurs must be removed from its record's scope.

    Each record's reproduction is run, since many conditions also hold for configs that show nothing: behind other ops, with other
    data.  ``own``: the errata of this chip's architecture alone.  A fault that depends on memory (``flaky``) may be absent.
    """
    sdk = libraries.qnn_version()
    arch = {s.chip: s.htp_arch for s in catalog.socs.values()}.get(soc)
    asked = [
        e
        for e in catalog.errata.values()
        if e.backend == backend and e.reproduction is not None and declared(e.scope.since, e.scope.until, sdk)
        and (e.scope.arch == [arch] or e.scope.socs == [soc] if own else
             arch in (e.scope.arch or [arch]) and soc in (e.scope.socs or [soc]))
    ]  # fmt: skip
    observed = {o.erratum: o for o in observe(catalog, asked, libraries, sdk, soc)}
    shown = {e.erratum: observed[e.erratum].shows(e.effect) for e in asked}
    gone = [e.erratum for e in asked if shown[e.erratum] is False and not e.flaky]
    assert not gone, "\n".join(f"{reason(RECORDS[i])}: {observed[i]}" for i in gone)
    untold = {i for i, shows in shown.items() if shows is None}
    assert untold == CANNOT_TELL & shown.keys(), "\n".join(str(observed[i]) for i in untold ^ CANNOT_TELL)
    assert sum(map(bool, shown.values())) > {"CPU": 60, "HTP": 150, "HTP-v68": 30}[f"{backend}{'-v68' * own}"]


@pytest.mark.sweep
def test_all_cases_pass_on_all_executors(catalog: Catalog, store: Store) -> None:
    """No result is wrong unless it is known to be; no rule is left out."""
    summary = run(catalog, store, jobs=2)
    assert summary.ok, "\n".join(
        f"{f.case} {f.executor}: {f.reason}" for f in summary.findings if f.outcome == "fail"
    )
    assert summary.missing == [] and summary.unbroken == []
    found = gaps(catalog, store)
    assert found.left == ()
    assert (found.code_not_spec, found.cases_not_spec, found.cases_not_code) == ((), (), ())
