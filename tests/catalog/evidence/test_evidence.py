"""The evidence file: the same bytes for the same cells, nothing lost, faults named; merging takes and refuses the right ones."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import pytest

from opdb.catalog.evidence import EXECUTIONS, STAGES, WORST, Cell, Evidence, Outcome, Run
from opdb.catalog.evidence.format import packed, read, shipped, shipped_path, write
from opdb.catalog.evidence.merge import merge
from opdb.catalog.evidence.text import told
from opdb.catalog.schema import STATUSES
from opdb.core.errors import OpdbError
from opdb.spec.catalog import Catalog

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
RIGHT = Outcome("0123456789ab", 3, ({"yes": 3},) * 4, "matches", "Relu-sample0-HTP.FP16.1", '{"op": "Relu"}')
WRONG = Outcome("0123456789ab", 3, ({"yes": 3}, {"yes": 3}, {"yes": 2, "crashed": 1}, {"yes": 1, "no": 1, "unknown": 1}), "matches",
                "a", "{}", "executes crashed", "b", 11, "SIGSEGV", "y[0]: 1, PyTorch 2", ("HTP-0001",))  # fmt: skip


def cell(outcome: Outcome = RIGHT, row: str = "HTP.FP16.1", **run: object) -> Cell:
    return Cell("op", "Relu", row, replace(RUN, **run), outcome)  # type: ignore[arg-type]


def test_the_file_uses_the_status_words_of_the_tables() -> None:
    assert set(WORST) == set(STATUSES)


def test_written_evidence_reads_back(tmp_path: Path) -> None:
    cells = [cell(), cell(WRONG, soc="SM8750"), cell(WRONG, "HTP.INT8.1"), cell(execution="device")]
    size = write(tmp_path / "e.gz", Evidence.of(cells))
    assert size == (tmp_path / "e.gz").stat().st_size
    assert read(tmp_path / "e.gz").cells == Evidence.of(cells).cells
    assert {f.name for f in fields(Outcome)} >= {"counts", "errata"}


def test_cell_order_does_not_change_the_bytes() -> None:
    cells = [
        cell(o, row, soc=soc)
        for o in (RIGHT,)
        for row in ("HTP.FP16.1", "HTP.INT8.1")
        for soc in ("A", "B", "C")
    ]
    first = packed(Evidence.of(cells))
    random.Random(1).shuffle(cells)
    assert packed(Evidence.of(cells)) == first


def test_the_shipped_file_is_small_and_states_its_provenance(catalog: Catalog) -> None:
    assert shipped_path().stat().st_size < 5_000_000
    evidence = read(shipped_path())
    assert packed(evidence) == shipped_path().read_bytes()
    for run in evidence.runs:
        assert all((run.package, run.version, run.build_id, run.sha256, run.date, run.host, run.generator)), (
            run
        )
    places = {(c.run.backend, c.run.sdk, c.run.soc) for c in evidence.cells.values()}
    for backend in catalog.backends.values():
        if (at := backend.measured) is not None:
            assert (backend.name, at.sdk, at.soc or "") in places
            rows = {
                (op.op, r.id)
                for op in catalog.ops.values()
                if op.package == "qti.aisw"
                for r in catalog.compiled(op.op).type_rows.get(backend.name, ())
            }
            found = {
                (c.name, c.row)
                for c in evidence.cells.values()
                if (c.run.backend, c.run.sdk, c.run.soc) == (backend.name, at.sdk, at.soc or "")
            }
            assert len(rows & found) > 0.9 * len(
                rows
            )  # of ops that are in the specs since, unknown is unknown


def test_counts_of_shipped_cells_cover_all_their_cases() -> None:
    for c in shipped().cells.values():
        assert [sum(counts.values()) for counts in c.outcome.counts] == [c.outcome.cases] * len(STAGES), c.key
        assert c.run.execution in EXECUTIONS


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"version":1', '"version":2', 1), "evidence of format 2; this opdb reads format 1: use the opdb"),
        (lambda text: text.replace("opdb-evidence", "other", 1), "no file of evidence: its first line has no format"),
        (lambda text: text.replace('"cells":1', '"cells":7', 1), "the head says 7 cells, 1 follow"),
        (lambda text: text + "{", r"e.gz:\d+: not JSON"),
        (lambda text: text.replace('"3y"', '"3z"', 1), r"e.gz:\d+: not a line of evidence"),
        (lambda text: text.replace("emulator", "elsewhere"), "no execution 'elsewhere'; one of emulator, host, device"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    text = gzip.decompress(packed(Evidence.of([cell()]))).decode()
    (tmp_path / "e.gz").write_bytes(gzip.compress(change(text).encode()))
    with pytest.raises(OpdbError, match=message):
        read(tmp_path / "e.gz")


def test_a_truncated_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "e.gz").write_bytes(packed(Evidence.of([cell()]))[:-20])
    with pytest.raises(OpdbError, match="no file of evidence can be read"):
        read(tmp_path / "e.gz")


def test_a_merge_takes_the_newer_cells_and_keeps_devices_apart() -> None:
    ours = Evidence.of([cell(), cell(row="HTP.INT8.1")])
    newer, older = cell(WRONG, date="2026-12-01"), cell(WRONG, "HTP.INT8.1", date="2026-01-01")
    device = cell(WRONG, execution="device", sha256="cd" * 32)  # its own library, under the same version
    done = merge(ours, Evidence.of([newer, older, device]), "mine.gz")
    assert (done.added, done.replaced, done.left) == ([device], [newer], [older])
    assert len(done.evidence) == 3 and len(ours) == 2
    assert done.evidence.cells[newer.key].outcome == WRONG
    assert done.evidence.cells[older.key].outcome == RIGHT


def test_a_merge_refuses_another_library_of_the_same_version() -> None:
    theirs = Evidence.of([cell(build_id="v2.47.1", sha256="cd" * 32, soc="SM8750")])
    with pytest.raises(
        OpdbError,
        match=r"mine.gz: its HTP 2.47 .* is another library than the known one of that version: build v2.47.1",
    ):
        merge(Evidence.of([cell()]), theirs, "mine.gz")


def test_outcomes_are_put_in_words() -> None:
    assert told(RIGHT) == "right"
    assert told(WRONG) == "crashes in 1 of 3, wrong numbers in 1 of 3 (HTP-0001)"
    assert json.loads(RIGHT.config)
