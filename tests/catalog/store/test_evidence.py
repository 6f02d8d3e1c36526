"""Evidence from files in SQL: the shipped set, merged cells, and the user's own results beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from opdb.catalog.evidence import Cell, Evidence, Outcome, Run
from opdb.catalog.evidence.format import write
from opdb.catalog.query import Filters, ask
from opdb.catalog.schema import STATUS_COLUMNS
from opdb.catalog.store import CaseRecord, ExecutorRecord, LibraryRecord, ResultRecord, RunRecord, Store
from opdb.catalog.store import evidence as evidence_sql

pytestmark = pytest.mark.slow

RUN = Run(
    "HTP",
    "2.47",
    "SM8650",
    "emulator",
    "onnxruntime-qnn",
    "2.3.0",
    "v2.47.0",
    "ab" * 32,
    "2026-11-27",
    "Linux x86_64",
    "opdb 1",
)
RIGHT = Outcome("0123456789ab", 3, ({"yes": 3},) * 4, "matches", "case", "{}")
REFUSED = Outcome("0123456789ab", 1, ({"no": 1}, {"unknown": 1}, {"unknown": 1}, {"unknown": 1}), "", "", "", "validates no", "case",
                  3110, "QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE", "no", ("HTP-0001",))  # fmt: skip
ROW = "HTP.FP16.1"


def cell(outcome: Outcome = RIGHT, **run: object) -> Cell:
    return Cell("op", "LayerNorm", ROW, replace(RUN, **run), outcome)  # type: ignore[arg-type]


def loaded(store: Store, specs: Path, *cells: Cell) -> Store:
    store.sync(specs)
    file = specs.parent / "e.gz"
    write(file, Evidence.of(cells))
    with store.database.changing() as writer:
        assert evidence_sql.load_shipped(writer, file) == len(cells)
        assert evidence_sql.load_shipped(writer, file) is None  # it is there
    return store


def row(store: Store, soc: str, execution: str = "emulator") -> dict[str, object]:
    rows = ask(store, "support", Filters(op="LayerNorm", backend="HTP", soc=soc, sdk="2.47"))
    (found,) = [r for r in rows if r["type_row"] == ROW and r["execution"] in (execution, None)]
    return found


def test_a_cell_states_results_date_and_library(store: Store, specs: Path) -> None:
    found = row(loaded(store, specs, cell(REFUSED)), "SM8650")
    assert [found[c] for c in STATUS_COLUMNS] == ["yes", "no", "unknown", "unknown", "unknown"]
    assert (found["counts"], found["stopped"], found["reason"], found["errata"]) == (
        "validates 1 no",
        "validates no",
        "no",
        "HTP-0001",
    )
    assert (found["library"], found["measured"]) == ("onnxruntime-qnn 2.3.0, emulator, SM8650", "2026-11-27")


def test_stored_evidence_reads_back(store: Store, specs: Path) -> None:
    cells = [cell(), cell(REFUSED, soc="SM8750"), cell(REFUSED, execution="device")]
    assert loaded(store, specs, *cells).evidence("shipped").cells == Evidence.of(cells).cells


def test_a_device_has_a_row_of_its_own(store: Store, specs: Path) -> None:
    loaded(store, specs, cell(), cell(REFUSED, execution="device"))
    assert (row(store, "SM8650")["validates"], row(store, "SM8650", "device")["validates"]) == ("yes", "no")


def test_the_newer_of_two_files_wins(store: Store, specs: Path) -> None:
    loaded(store, specs, cell())
    store.record_merged(Evidence.of([cell(REFUSED, date="2026-12-01")]))
    assert row(store, "SM8650")["validates"] == "no"
    assert row(store, "SM8650")["library"] == "onnxruntime-qnn 2.3.0, emulator, SM8650, merged"
    loaded(store, specs, cell(RIGHT, date="2027-01-01"))  # a later opdb ships a newer one
    assert row(store, "SM8650")["validates"] == "yes"


def own(store: Store, started: str, validates: str) -> None:
    library = LibraryRecord("onnxruntime-qnn", "2.3.0", "v2.47.0", "ab" * 32, "HTP", "2.47", emulated=True)
    case = CaseRecord("LayerNorm-x", "LayerNorm", "positive", "{}", "HTP", "SM8650", "2.47", ROW)
    run = store.begin_run(RunRecord("1", "hash", 0, started=started))
    executor = ExecutorRecord("qnn-htp", "2.47", "HTP", library)
    store.record_results(run, [ResultRecord(case, executor, "SM8650", "yes", validates)])


def test_own_results_override_older_evidence_and_show_their_source(store: Store, specs: Path) -> None:
    loaded(store, specs, cell())
    own(store, "2026-11-28T10:00:00.000+00:00", "no")
    found = row(store, "SM8650")
    assert (found["validates"], found["measured"]) == ("no", "2026-11-28T10:00:00.000+00:00")
    assert found["library"] == "onnxruntime-qnn 2.3.0, emulator, own run"
    assert found["matches"] == "yes"  # statuses missing in the own run are as shipped


def test_newer_evidence_overrides_older_results(store: Store, specs: Path) -> None:
    loaded(store, specs, cell())
    own(store, "2026-01-01T10:00:00.000+00:00", "no")
    assert row(store, "SM8650")["validates"] == "yes"


def test_the_shipped_set_is_loaded_once(store: Store, specs: Path) -> None:
    store.sync(specs)
    assert store.load_shipped()
    assert store.load_shipped() is None
