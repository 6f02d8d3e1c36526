"""Runs in SQL: recorded, resumed after a kill, complete except for missing executors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from opdb.catalog import schema
from opdb.catalog.query import ask
from opdb.catalog.store import Store
from opdb.core.errors import MissingExtra, OpdbError
from opdb.measure.conformance import executors
from opdb.measure.conformance.report import read_rows
from opdb.measure.conformance.run import Progress, run
from opdb.spec.catalog import Catalog

pytestmark = [pytest.mark.native, pytest.mark.slow]
OWN = ("python", "c")


def answers(store: Store) -> set[tuple[str, str]]:
    return {(r.case, r.executor) for r in read_rows(store)}


def test_every_answer_is_a_row(catalog: Catalog, store: Store) -> None:
    seen: list[Progress] = []
    summary = run(catalog, store, ["Relu"], OWN, progress=seen.append)
    assert summary.ok
    assert summary.results == 2 * summary.cases == len(read_rows(store)) == len(seen)
    assert (seen[-1].done, seen[-1].total) == (summary.results, summary.results)
    assert all(set(c) == {"pass"} or c["unknown"] for c in summary.counts.values())
    rows = ask(store, "runs")
    assert len(rows) == summary.results
    assert {r["executor"] for r in rows} == set(OWN)
    with store.reading() as connection:
        found = connection.execute(select(schema.run.c.finished, schema.run.c.catalog_hash)).one()
    assert found.finished is not None and found.catalog_hash == catalog.hash


def test_implications_are_rows(catalog: Catalog, store: Store) -> None:
    run(catalog, store, ["Softmax"], ("python",))
    coverage = {r["rule"]: r for r in ask(store, "coverage")}
    assert coverage["Softmax.C1"]["implied_by"] == "Softmax.C2"


def test_a_killed_run_is_resumed(catalog: Catalog, store: Store) -> None:
    def stop(p: Progress) -> None:
        if p.done == 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(catalog, store, ["Relu"], OWN, progress=stop)
    before = len(read_rows(store))
    assert before == 40
    summary = run(catalog, store, ["Relu"], OWN, resume=True)
    assert summary.kept == 40
    assert summary.results == 2 * summary.cases - 40
    assert len(answers(store)) == 2 * summary.cases
    again = run(catalog, store, ["Relu"], OWN, resume=True)
    assert (again.kept, again.run == summary.run) == (0, False), "a finished run is not continued"


def test_parallel_runs_give_the_same_rows(catalog: Catalog, store: Store, tmp_path: Path) -> None:
    run(catalog, store, ["Relu", "Softmax"], OWN, jobs=2)
    at_once = {(r.case, r.executor, r.validates, r.matches, r.rules) for r in read_rows(store)}
    run(catalog, store, ["Relu", "Softmax"], OWN, jobs=1)
    assert at_once == {(r.case, r.executor, r.validates, r.matches, r.rules) for r in read_rows(store)}


def test_another_seed_gives_other_data(catalog: Catalog, store: Store) -> None:
    pytest.importorskip("torch")
    errors = []
    for seed in (0, 1):
        run(catalog, store, ["Softmax"], ("c",), seed=seed, only=["Softmax-sample0-f32"])
        errors.append(read_rows(store)[0].error_max)
    assert errors[0] != errors[1]


def _without(name: str) -> Callable[[str], object]:
    def missing(soc: str, catalog: Catalog) -> object:
        raise MissingExtra(f"the package that the executor '{name}' needs", name)

    return missing


def test_missing_executors_are_named_and_the_others_run(
    catalog: Catalog, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(executors.EXECUTORS, "torch", _without("torch"))
    summary = run(catalog, store, ["Relu"], ("python", "torch"))
    assert summary.missing == [
        "the package that the executor 'torch' needs is not installed; install it with: pip install 'qnn-opdb[torch]'"
    ]
    assert summary.results == summary.cases
    with pytest.raises(MissingExtra, match="the executor 'torch'"):
        run(catalog, store, ["Relu"], ("torch",))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ops": ["Relo"]}, "unknown op 'Relo'"),
        (
            {"executors": ["cc"]},
            "no executor 'cc'; known: python, c, torch, onnx.reference, qnn-cpu, qnn-htp, hexagon",
        ),
        ({"socs": ["SM8651"]}, "unknown SoC 'SM8651'; did you mean"),
        ({"ops": ["Relu"], "only": ["Relu-sample9*"]}, r"no case 'Relu-sample9\*' among"),
    ],
)
def test_mistakes_give_one_line(
    catalog: Catalog, store: Store, more: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(OpdbError, match=message) as caught:
        run(catalog, store, **{"executors": ["python"], **more})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_run_can_be_limited_to_one_case(catalog: Catalog, store: Store) -> None:
    summary = run(catalog, store, ["LayerNorm"], OWN, only=["LayerNorm-C3-0"])
    assert (summary.cases, summary.results) == (1, 2)
    assert {r.rules for r in read_rows(store)} == {("LayerNorm.C3",)}
