"""The commands of evidence, as a user sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from opdb.catalog.evidence.format import shipped

Run = Callable[..., "CompletedProcess[str]"]


def test_a_new_database_has_measured_columns(loaded: Run) -> None:
    """No library is needed: the cells come with ``opdb init``."""
    rows = json.loads(
        loaded("query", "support", "--op", "Relu", "--soc", "SM8650", "--sdk", "2.47", "--json").stdout
    )
    measured = {r["type_row"]: r for r in rows if r["measured"]}
    assert measured["HTP.FP16.1"]["matches"] == "yes"
    assert "onnxruntime-qnn 2.3.0, emulator, SM8650" in measured["HTP.FP16.1"]["library"]
    text = loaded("show", "Relu").stdout
    assert "# measured, not a part of the spec:" in text and "HTP 2.47 emulator: right" in text


def test_a_chip_shares_the_cells_of_its_measured_class(loaded: Run) -> None:
    rows = json.loads(
        loaded("query", "support", "--op", "Relu", "--soc", "SA8620P", "--sdk", "2.47", "--json").stdout
    )
    assert any(r["library"] and r["library"].endswith("SM8650") for r in rows)


def test_merging_known_cells_changes_nothing(loaded: Run, tmp_path: Path) -> None:
    file = "opdb/catalog/evidence/shipped.jsonl.gz"
    assert (
        f"0 cells added, 0 replaced by newer ones, {len(shipped())} left as they are"
        in loaded("evidence", "merge", file).stdout
    )
    refused = loaded("evidence", "export", "-o", str(tmp_path / "mine.gz"))
    assert refused.returncode == 2 and "no library was measured in this database" in refused.stderr
    other = loaded("evidence", "merge", "README.md")
    assert other.returncode == 2 and "README.md: no file of evidence can be read from it" in other.stderr


def test_show_lists_the_runs(loaded: Run) -> None:
    rows = json.loads(loaded("evidence", "show", "--json").stdout)
    assert sum(r["cells"] for r in rows) == len(shipped())
    assert {"backend", "sdk", "soc", "execution", "build", "measured", "host", "generator", "seed"} <= rows[
        0
    ].keys()
