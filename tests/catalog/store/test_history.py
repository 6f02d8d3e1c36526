"""Artifacts, probes, runs and results: kept, resumed, dumped, restored on either database."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from opdb.catalog import migrate
from opdb.catalog import schema as t
from opdb.catalog.query import ask
from opdb.catalog.store import (
    CaseRecord,
    ExecutorRecord,
    LibraryRecord,
    ProbeRecord,
    ProbeRunRecord,
    ResultRecord,
    RunRecord,
    Store,
)
from opdb.core.errors import OpdbError

pytestmark = pytest.mark.slow

HTP = LibraryRecord("onnxruntime-qnn", "2.3.0", "v2.47.0.260601", "ab" * 32, "HTP", "2.47", emulated=True)
PYTHON = ExecutorRecord("python", "0.1.0")
QNN_HTP = ExecutorRecord("qnn-htp", "2.47", "HTP", HTP)
GOOD = CaseRecord("LayerNorm-0", "LayerNorm", "positive", "{}", "HTP", "SM8650", "2.47", "HTP.FP16.1")
BAD = CaseRecord(
    "LayerNorm-C3", "LayerNorm", "negative", "{}", "HTP", "SM8650", "2.47", "HTP.FP16.1", ("C3",)
)


def fill(store: Store) -> int:
    run = store.begin_run(RunRecord("0.1.0", "cafe", seed=7, command="opdb conformance run"))
    store.record_results(
        run,
        [
            ResultRecord(GOOD, PYTHON, "SM8650", declared="yes", validates="yes", seconds=0.1),
            ResultRecord(
                GOOD, QNN_HTP, "SM8650", "yes", "yes", "yes", "crashed", log="a\0b\ud800", error_max=math.nan
            ),
            ResultRecord(BAD, PYTHON, "SM8650", declared="no", validates="no", rules=("LayerNorm.C3", "H5")),
            ResultRecord(BAD, QNN_HTP, "SM8650", declared="no", validates="yes"),
        ],
    )
    store.record_implications([("LayerNorm.C2", "LayerNorm.C3", "an empty list has no axis")])
    store.finish_run(run)
    probe = store.begin_probe_run(RunRecord("0.1.0", "cafe"), HTP)
    row = ProbeRecord(
        "Relu", "HTP", "2.47", "{}", "SM8650", "HTP.FP16.1", "no", code=3110, code_name="X", log="rank"
    )
    store.record_probes(probe, [row])
    store.record_probes(probe, [row])
    store.finish_probe_run(probe)
    return run


def test_an_interrupted_sweep_resumes(store: Store) -> None:
    """The same question gives the same run; answers have positions, and the first answer at a position stays."""
    sweep = ProbeRunRecord("0.1.0", "cafe", seed=7, op="Relu", soc="SM8650", note="generator 1")
    run, there = store.continue_probe_run(sweep, HTP)
    assert there == frozenset()
    said = [ProbeRecord("Relu", "HTP", "2.47", "{}", validates=v, ours="accept", rules=("H1",), position=p)
            for p, v in ((5, "yes"), (2, "no"))]  # fmt: skip
    store.record_probes(run, said)
    store.record_probes(run, [replace(said[0], validates="crashed"), replace(said[1], position=3)])
    again = ProbeRunRecord("0.2.0", "cafe", seed=7, op="Relu", soc="SM8650", note="generator 1")
    assert store.continue_probe_run(again, HTP) == (run, {2, 3, 5})
    for other in ({"seed": 8}, {"catalog_hash": "babe"}, {"note": ""}, {"op": "Elu"}, {"soc": ""}):
        assert store.continue_probe_run(replace(sweep, uid=str(other), **other), HTP)[1] == frozenset()
    newer = replace(HTP, build_id="v2.47.1")
    assert store.continue_probe_run(replace(sweep, uid="newer"), newer)[0] != run
    with store.reading() as connection:
        rows = connection.execute(select(t.probe_result).order_by(t.probe_result.c.position)).all()
    assert [(r.position, r.validates, r.rules) for r in rows] == [
        (2, "no", "Relu.H1"), (3, "no", "Relu.H1"), (5, "yes", "Relu.H1")
    ]  # fmt: skip
    (row,) = ask(store, "agreement")
    assert (row["n"], row["both_accept"], row["we_accept_it_rejects"]) == (3, 1, 2)


def test_results_are_stored_and_replaced_on_resume(store: Store) -> None:
    run = fill(store)
    rows = ask(store, "runs", where="kind = 'conformance'")
    assert [(r["case"], r["executor"], r["executes"]) for r in rows] == [
        ("LayerNorm-0", "python", "unknown"),
        ("LayerNorm-0", "qnn-htp", "crashed"),
        ("LayerNorm-C3", "python", "unknown"),
        ("LayerNorm-C3", "qnn-htp", "unknown"),
    ]
    assert (
        rows[1]["log"] == "a\\0b\\ud800" and rows[1]["error_max"] == math.inf and rows[1]["emulated"] is True
    )
    assert rows[2]["rules"] == "LayerNorm.C3 LayerNorm.H5"
    # A resumed run records the same case again: the new result replaces the old one.
    store.record_results(run, [ResultRecord(GOOD, QNN_HTP, "SM8650", "yes", "yes", "yes", "yes", "yes")])
    again = ask(
        store, "runs", where="kind = 'conformance' and executor = 'qnn-htp' and case_kind = 'positive'"
    )
    assert [r["executes"] for r in again] == ["yes"]
    with store.reading() as connection:
        assert connection.execute(select(t.run.c.finished)).scalar_one() is not None
        assert len(connection.execute(select(t.executor)).all()) == 2
        assert len(connection.execute(select(t.library)).all()) == 1


def test_a_changed_case_gets_a_new_row(store: Store) -> None:
    first, second = store.begin_run(RunRecord("0.1.0", "1")), store.begin_run(RunRecord("0.1.0", "2"))
    changed = CaseRecord(**{**vars(GOOD), "config": '{"op": "LayerNorm"}'})
    store.record_results(first, [ResultRecord(GOOD, PYTHON)])
    store.record_results(second, [ResultRecord(changed, PYTHON)])
    with store.reading() as connection:
        rows = connection.execute(select(t.conformance_case.c.name, t.conformance_case.c.config)).all()
    assert sorted(map(tuple, rows)) == [("LayerNorm-0", '{"op": "LayerNorm"}'), ("LayerNorm-0", "{}")]


def test_an_unknown_status_is_rejected(store: Store) -> None:
    run = store.begin_run(RunRecord("0.1.0", "1"))
    with pytest.raises(
        OpdbError, match="'supported' is not a status of 'validates'; one of yes, no, unknown"
    ):
        store.record_results(
            run, [ResultRecord(GOOD, PYTHON), ResultRecord(GOOD, PYTHON, validates="supported")]
        )
    assert ask(store, "runs") == []  # all of the call, or nothing


def history(store: Store) -> list[str]:
    """The history without row numbers."""
    return [json.dumps(r, sort_keys=True) for q in ("runs", "support", "coverage") for r in ask(store, q)]


def test_a_dump_restores_the_same_history(store: Store, specs: Path, tmp_path: Path) -> None:
    """A dump of each database restores into SQLite with the same answers; restoring twice adds nothing."""
    store.sync(specs)
    fill(store)
    lines = list(store.dump())
    other_url = f"sqlite:///{tmp_path / 'other.db'}"
    migrate.upgrade(other_url)
    other = Store(other_url)
    other.sync(specs)
    assert other.restore(lines) == len(lines) - 1
    assert history(other) == history(store) and len(history(store)) > 10
    assert other.restore(lines) == 0
    assert store.restore(other.dump()) == 0
    # Into a database with other runs: row numbers are reassigned.
    fill(store)
    assert store.restore(lines) == 0
    assert other.restore(store.dump()) > 0
    assert sorted(history(other)) == sorted(history(store))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "dump: empty"),
        (["{}"], "dump:1: not a dump of opdb's history"),
        (["nonsense"], "dump:1: not JSON"),
        (['{"format": "opdb-history-1"}', '{"table": "op", "row": {}}'], "dump:2: expected "),
        (
            ['{"format": "opdb-history-1"}', '{"table": "run", "row": {"id": 1}}'],
            "dump:2: 'run' has other columns",
        ),
    ],
)
def test_files_that_are_not_dumps_are_rejected(store: Store, lines: list[str], message: str) -> None:
    with pytest.raises(OpdbError) as caught:
        store.restore(lines)
    assert str(caught.value).startswith(message)


def test_a_dump_with_a_wrong_row_changes_nothing(store: Store, tmp_path: Path) -> None:
    fill(store)
    lines = [line.replace('"crashed"', '"exploded"') for line in store.dump()]
    url = f"sqlite:///{tmp_path / 'other.db'}"
    migrate.upgrade(url)
    with pytest.raises(OpdbError, match=r"^dump:\d+: the database refuses the row: CHECK constraint failed"):
        Store(url).restore(lines)
    with pytest.raises(OpdbError, match="not JSON"):
        Store(url).restore([*lines[:4], lines[4][:20]])
    assert ask(Store(url), "runs") == []
