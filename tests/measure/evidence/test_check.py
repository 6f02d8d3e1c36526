"""Re-measuring a part of the shipped evidence; and resuming a build."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from opdb.catalog.evidence import Evidence
from opdb.catalog.evidence.format import read, shipped
from opdb.core.errors import OpdbError
from opdb.measure.evidence.build import Progress, build
from opdb.measure.evidence.check import check, chosen
from opdb.measure.evidence.chips import chips, class_of, places
from opdb.measure.evidence.measure import rows_of
from opdb.spec.catalog import Catalog

pytest.importorskip("torch")
pytestmark = [pytest.mark.vendor, pytest.mark.native, pytest.mark.torch, pytest.mark.slow]


def test_one_percent_of_the_cells_measure_as_shipped(
    catalog: Catalog, record_property: Callable[[str, object], None]
) -> None:
    """The choice changes daily; ``opdb evidence check --seed N`` repeats one."""
    seed = int(f"{datetime.now(UTC):%Y%m%d}")
    record_property("seed", seed)
    found = check(catalog, shipped(), places(catalog), 0.01, seed)
    assert not found.missing
    assert not found.differences, f"--seed {seed}: " + "; ".join(map(str, found.differences))
    assert found.asked > 20


def test_a_wrong_cell_is_detected(catalog: Catalog) -> None:
    here = places(catalog, ["2.47"], ["SM8650"])
    true = next(
        c
        for c in shipped().cells.values()
        if (c.name, c.row, c.run.soc, c.run.sdk) == ("Relu", "HTP.FP16.1", "SM8650", "2.47")
    )
    wrong = replace(
        true, outcome=replace(true.outcome, counts=(*true.outcome.counts[:3], {"no": true.outcome.cases}))
    )
    found = check(catalog, Evidence.of([wrong]), here, 1.0, 1)
    (difference,) = found.differences
    assert str(difference) == "Relu HTP.FP16.1 on HTP 2.47 SM8650 (emulator): matches was 3 no, is 3 yes"
    assert not found.ok
    other = replace(true, outcome=replace(true.outcome, spec="0" * 12))
    assert check(catalog, Evidence.of([other]), here, 1.0, 1).stale == [true.key]


def test_a_share_depends_only_on_the_seed() -> None:
    cells = list(shipped().cells.values())
    assert chosen(cells, 0.01, 7) == chosen(cells[::-1], 0.01, 7) != chosen(cells, 0.01, 8)
    assert len(chosen(cells[:10], 0.01, 7)) == 1


def test_an_empty_share_is_refused(catalog: Catalog) -> None:
    with pytest.raises(OpdbError, match="--share 0: give a part of all cells"):
        check(catalog, shipped(), places(catalog), 0, 1)
    with pytest.raises(OpdbError, match="nothing of the 0 cells can be measured again here"):
        check(catalog, Evidence(), places(catalog), 0.5, 1)


def test_chips_represent_every_class(catalog: Catalog) -> None:
    classes = [class_of(catalog, soc) for soc in chips(catalog)]
    known = {
        class_of(catalog, c.chip)
        for c in catalog.socs.values()
        if (c.htp_arch or 0) in (68, 69, 73, 75, 79, 81, 85)
    }
    assert len(classes) == len(set(classes)) and set(classes) >= known


def test_a_resumed_build_gives_the_same_bytes(catalog: Catalog, tmp_path: Path) -> None:
    here = places(catalog, ["2.47"], ["SM8650"])
    whole, parts = tmp_path / "whole.gz", tmp_path / "parts.gz"
    assert build(catalog, whole, here, ["Relu", "Tanh"]).measured == len(read(whole))
    build(catalog, parts, here, ["Relu"])
    told: list[Progress] = []
    done = build(catalog, parts, here, ["Relu", "Tanh"], progress=told.append)
    rows = {op: len(rows_of(catalog, op, "HTP", "SM8650", 3)) for op in ("Relu", "Tanh")}
    assert (done.kept, done.measured, done.removed) == (rows["Relu"], rows["Tanh"], 0)
    assert told[-1].done == told[-1].total == 1
    assert parts.read_bytes() == whole.read_bytes()
    again = build(catalog, parts, here, ["Relu", "Tanh"])
    assert again.measured == 0 and parts.read_bytes() == whole.read_bytes()
