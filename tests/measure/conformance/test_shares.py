"""A run divided over processes and Dask workers has the rows and summary of a run in one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opdb.catalog.store import Store
from opdb.execute.libraries.reasons import kept, masked
from opdb.measure.conformance.report import read_rows
from opdb.measure.conformance.run import Progress, RunSummary, run
from opdb.spec.catalog import Catalog

from ...dask_cluster import kill_a_worker, local_cluster

OPS = ("LayerNorm", "Relu", "Softmax")


def rows(store: Store) -> list[Any]:
    """The latest row of each case, without the parts that vary between runs: its number and its time.

    In the log of a verdict numbers are masked, and lines that a library prints once per process are dropped; the log of a
    graph is ignored: its lines come from several threads (``opdb.measure.sweeps.sweep.evidence_hash``).
    """
    return sorted(
        (replace(r, seconds=None, run="", log=said(r)) for r in read_rows(store)),
        key=lambda r: (r.case, r.executor, r.soc),
    )


def said(row: Any) -> str:
    return masked("\n".join(kept(row.log.splitlines()))) if row.finalizes == "unknown" else ""


def plain(summary: RunSummary) -> dict[str, Any]:
    return {k: v for k, v in vars(summary).items() if k not in ("run", "seconds")}


def differ(a: Any, b: Any) -> tuple[Any, ...]:
    """The case of two rows, and the fields that differ."""
    return (a.case, a.executor, *((k, v, vars(b)[k]) for k, v in vars(a).items() if v != vars(b)[k]))


@pytest.mark.breadth
@pytest.mark.kill
@pytest.mark.vendor
def test_results_do_not_depend_on_the_workers(catalog: Catalog, store: Store) -> None:
    here, wanted = plain(run(catalog, store, OPS)), rows(store)
    assert here["results"] == len(wanted) > 1000

    def same(summary: RunSummary) -> None:
        assert plain(summary) == here
        found = rows(store)
        assert [differ(a, b) for a, b in zip(found, wanted, strict=True) if a != b] == []

    same(run(catalog, store, OPS, jobs=2))
    killed = 0
    with local_cluster(2) as cluster:

        def kill(p: Progress) -> None:
            nonlocal killed
            if p.done >= (killed + 1) * 150 and killed < 2:
                kill_a_worker(cluster)
                killed += 1

        same(run(catalog, store, OPS, dask=cluster.scheduler_address, progress=kill))
    assert killed == 2
