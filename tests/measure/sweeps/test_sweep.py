"""Sweeps: the same evidence by seed, however they are interrupted, killed or divided; existing answers are not asked for again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from opdb.catalog import migrate, schema
from opdb.catalog.query import Filters, ask
from opdb.catalog.store import Store
from opdb.core.errors import OpdbError
from opdb.core.op_config import from_json
from opdb.core.pool import DEATHS, processes
from opdb.execute.libraries.client import VendorWorker
from opdb.execute.libraries.reasons import parse
from opdb.measure.sweeps import sweep as module
from opdb.measure.sweeps.sweep import Limits, Progress, Summary, evidence_hash, sweep
from opdb.spec.catalog import Catalog

from ...dask_cluster import kill_a_worker, local_cluster

pytestmark = [pytest.mark.vendor, pytest.mark.slow, pytest.mark.usefixtures("libraries")]
MINI = Path(__file__).parents[2] / "data" / "mini"
COUNT, SEED_OF_CONFIGS = 40, 5
QUESTION: dict[str, Any] = {
    "ops": ("LayerNorm", "Relu"),
    "count": COUNT,
    "seed": SEED_OF_CONFIGS,
    "execute": 20,
}
#: The part of it that costs the least.
PART: dict[str, Any] = {**QUESTION, "ops": ("Relu",), "backends": ("CPU",)}
SEED = int(os.environ.get("OPDB_TEST_SEED", "20251121"))


def new_store(folder: Path, specs: Path = MINI) -> Store:
    url = f"sqlite:///{folder / 'opdb.db'}"
    migrate.upgrade(url)
    made = Store(url)
    made.sync(specs)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return new_store(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Summary]:
    """An undisturbed sweep by one process."""
    made = new_store(tmp_path_factory.mktemp("whole"))
    return made, sweep(made.load_catalog(), made, jobs=1, **QUESTION)


def rows(store: Store) -> list[dict[str, Any]]:
    table = schema.probe_result
    with store.reading() as connection:
        return [dict(r._mapping) for r in connection.execute(select(table).order_by(table.c.id))]


def catalog(store: Store) -> Catalog:
    return store.load_catalog()


def test_every_config_has_its_row(whole: tuple[Store, Summary]) -> None:
    store, summary = whole
    found = rows(store)
    assert summary.asked == len(found) == COUNT * 4 and (summary.kept, summary.left) == (0, 0)
    assert len(summary.runs) == 4  # two ops on two backends
    for run in summary.runs:
        mine = [r for r in found if r["probe_run_id"] == run]
        assert sorted(r["position"] for r in mine) == list(range(COUNT))
    assert {r["backend"] for r in found} == {"CPU", "HTP"}
    assert {r["soc"] for r in found if r["backend"] == "HTP"} == {"SM8650"}


def test_rows_match_the_librarys_answers(whole: tuple[Store, Summary]) -> None:
    """Asks again, one config at a time, in another process."""
    some = random.Random(SEED).sample(rows(whole[0]), 40)
    for backend, soc in (("CPU", None), ("HTP", "SM8650")):
        with VendorWorker(backend, soc) as worker:
            for r in (r for r in some if r["backend"] == backend):
                said = worker.validate(from_json(json.loads(r["config"])))
                assert {"accept": "yes", "reject": "no"}[said.verdict] == r["validates"], r
                if said.verdict == "reject":
                    reasons = [x["kind"] for x in json.loads(r["reasons"])]
                    assert reasons == [x.kind for x in parse(said.log)]
                    assert r["code"] == said.code


def test_both_validators_are_asked_and_a_sample_is_run(whole: tuple[Store, Summary]) -> None:
    store, _ = whole
    found = rows(store)
    assert {r["validates"] for r in found} >= {"yes", "no"}
    assert {r["ours"] for r in found} >= {"accept", "reject"}
    run = [r for r in found if r["finalizes"] != "unknown"]
    assert run and all(r["position"] % 20 == 0 and r["validates"] == "yes" for r in run)
    assert any(r["executes"] == "yes" for r in run)
    assert all(r["rules"] for r in found if r["ours"] == "reject")
    kinds = {x["kind"] for r in found for x in json.loads(r["reasons"] or "[]")}
    assert kinds >= {"inputs", "params", "rank"}


def part(whole: tuple[Store, Summary]) -> str:
    """The evidence of PART in the undisturbed sweep."""
    store, summary = whole
    (run,) = [
        i
        for i, r in zip(summary.runs, summary.agreement, strict=True)
        if (r["op"], r["backend"]) == ("Relu", "CPU")
    ]
    return evidence_hash(store, [run])


def test_another_seed_gives_other_evidence(whole: tuple[Store, Summary], store: Store) -> None:
    assert sweep(catalog(store), store, **{**PART, "seed": 6}).evidence != part(whole)


def test_existing_answers_are_not_asked_for_again(
    whole: tuple[Store, Summary], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, first = whole
    monkeypatch.setattr(processes, "Process", None)  # no process is started
    again = sweep(catalog(store), store, **QUESTION)
    assert (again.asked, again.kept, again.evidence) == (0, COUNT * 4, first.evidence)
    assert again.runs == first.runs
    assert [{**r, "n": 0} for r in again.agreement] == [{**r, "n": 0} for r in first.agreement]


def test_a_sweep_continues_after_its_budget(
    whole: tuple[Store, Summary], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A longer sweep begins with the configs of a shorter one."""
    monkeypatch.setattr(module, "CHUNK", 7)
    short = {**PART, "count": 25}
    cut = sweep(catalog(store), store, jobs=1, limits=Limits(budget=0.001), **short)
    assert cut.asked + cut.left == 25 and cut.left > 0 and cut.evidence == ""
    longer = sweep(catalog(store), store, jobs=3, **PART)
    assert (longer.kept, longer.asked) == (cut.asked, COUNT - cut.asked)
    assert longer.evidence == part(whole)


def test_a_changed_definition_starts_another_sweep(tmp_path: Path) -> None:
    """Only the latest one counts in the agreement."""
    import shutil

    specs = Path(shutil.copytree(MINI, tmp_path / "specs"))
    store = new_store(tmp_path, specs)
    ask_relu = {"count": 80, "execute": 0, "jobs": 1}
    first = sweep(catalog(store), store, ["Relu"], ["CPU"], **ask_relu)
    path = specs / "ops" / "Relu.yaml"
    path.write_text(path.read_text().replace("constraints:\n", "constraints:\n  C8: x.rank <= 1\n", 1))
    store.sync(specs)
    second = sweep(catalog(store), store, ["Relu"], ["CPU"], **ask_relu)
    assert second.asked == 80 and set(second.runs).isdisjoint(first.runs)
    (row,) = ask(store, "agreement", Filters(op="Relu"))
    assert (row["n"], row["both_accept"]) == (second.agreement[0]["n"], second.agreement[0]["both_accept"])
    listed = ask(store, "runs", Filters(disagree=True))
    assert len(listed) == row["we_accept_it_rejects"] + row["we_reject_it_accepts"] + row["undecided"]
    assert any("Relu.C8" in (r["rules"] or "") for r in listed)


#: A sweep that tells of each chunk that it keeps and goes on to the next one at a line on its input.
DRIVER = """
import sys
from opdb.measure.sweeps import sweep as module
from opdb.catalog.store import Store
module.CHUNK = 5
store = Store(sys.argv[1])
def told(progress):
    print(progress.done, flush=True)
    sys.stdin.readline()
module.sweep(store.load_catalog(), store, jobs=2, progress=told, **eval(sys.argv[2]))
"""


@pytest.mark.kill
def test_a_killed_sweep_resumes_with_the_same_evidence(
    whole: tuple[Store, Summary], store: Store, tmp_path: Path
) -> None:
    """Answers are kept, and the next sweep ends with the evidence of an undisturbed one."""
    rng, there = random.Random(SEED), 0
    for _ in range(2):
        command = [sys.executable, "-c", DRIVER, f"sqlite:///{tmp_path / 'opdb.db'}", repr(QUESTION)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None and child.stdout is not None
            for _ in range(rng.randrange(1, 8)):
                assert int(child.stdout.readline()) > 0
                print(file=child.stdin, flush=True)
            time.sleep(rng.random() / 50)  # it keeps the next chunk, or has kept it and waits
            os.kill(child.pid, signal.SIGKILL)
        found = len(rows(store))
        assert there < found <= there + 8 * 5 < COUNT * 4
        there = found
    last = sweep(catalog(store), store, jobs=2, **QUESTION)
    assert (last.kept, last.asked) == (there, COUNT * 4 - there)
    assert last.evidence == whole[1].evidence == evidence_hash(store, last.runs)


@pytest.mark.kill
def test_jobs_of_lost_processes_are_repeated(
    whole: tuple[Store, Summary], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losing every process is one clear error."""
    lost = 0

    class Killed(processes.Process):
        def ask(self, job: Any, deaths: int = 0) -> None:
            nonlocal lost
            if deaths < limit:
                self.process.kill()
                self.process.wait()
                lost += 1
            super().ask(job, deaths)

    monkeypatch.setattr(processes, "Process", Killed)
    limit = DEATHS
    with pytest.raises(OpdbError, match="3 processes ended at Relu, the last one with -9"):
        sweep(catalog(store), store, jobs=1, **PART)
    limit, lost = DEATHS - 1, 0
    assert sweep(catalog(store), store, jobs=1, **PART).evidence == part(whole)
    assert lost == DEATHS - 1


@pytest.mark.kill
def test_a_sweep_survives_killed_dask_workers(
    whole: tuple[Store, Summary], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evidence is the same as from one process."""
    monkeypatch.setattr(module, "CHUNK", 5)
    with local_cluster(2) as cluster:

        def kill(p: Progress) -> None:
            if p.done in (10, 60):
                kill_a_worker(cluster)

        summary = sweep(catalog(store), store, dask=cluster.scheduler_address, progress=kill, **QUESTION)
    assert (summary.asked, summary.left) == (COUNT * 4, 0)
    assert summary.evidence == whole[1].evidence


def test_skipped_ops_are_named(store: Store) -> None:
    made = catalog(store)
    bare = {n: o.model_copy(update={"samples": []}) if n == "LayerNorm" else o for n, o in made.own.items()}
    without = Catalog(bare, made.bases, made.families, made.backends, made.socs, made.retired)
    summary = sweep(without, store, ["LayerNorm", "Concat"], ["CPU"], count=5, execute=0, jobs=1)
    assert list(summary.skipped) == ["LayerNorm"] and "no samples" in summary.skipped["LayerNorm"]
    assert [r["op"] for r in summary.agreement] == ["Concat"]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"ops": ["Rely"]}, "unknown op 'Rely'"),
        ({"backends": ["NPU"]}, "unknown backend 'NPU'"),
        ({"socs": ["SM9999"]}, "unknown SoC 'SM9999'"),
        ({"backends": ["LPAI"]}, "'LPAI' is not a QNN backend that opdb drives"),
    ],
)
def test_bad_arguments_are_rejected(store: Store, more: dict[str, Any], message: str) -> None:
    with pytest.raises(OpdbError, match=message):
        sweep(catalog(store), store, count=5, **more)
    assert rows(store) == []
