"""opdb errata: its refusals and its page."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import ROOT, Run, one_line

MINI = str(ROOT / "tests" / "data" / "mini")


def test_an_unknown_record_is_rejected(opdb: Run) -> None:
    message = one_line(opdb("errata", "probe", "--specs", MINI, "--id", "HTP-9999"))
    assert message == "opdb: no erratum 'HTP-9999'; 'opdb query errata' lists them"


def test_rows_that_are_not_observations_are_rejected(opdb: Run, tmp_path: Path) -> None:
    page, rows = str(tmp_path / "page.md"), tmp_path / "rows.json"
    more = ("--specs", MINI, "--output", page, "--date", "2026-11-26")
    assert str(rows) in one_line(opdb("errata", "page", str(rows), *more))
    rows.write_text('[{"erratum": "HTP-0001"}]')
    assert "entry 0 is not an observation" in one_line(opdb("errata", "page", str(rows), *more))
    rows.write_text('{"erratum": "HTP-0001"}')
    assert "a list of observations" in one_line(opdb("errata", "page", str(rows), *more))
    rows.write_text("[]")
    date = ("--specs", MINI, "--output", page, "--date", "yesterday")
    assert "'yesterday' is not a date" in one_line(opdb("errata", "page", str(rows), *date))


def test_the_page_is_written(opdb: Run, tmp_path: Path) -> None:
    page, rows = tmp_path / "page.md", tmp_path / "rows.json"
    seen = {"erratum": "HTP-9999", "qnn": "2.47", "soc": "SM8650", "symptom": "right", "detail": ""}
    rows.write_text(json.dumps([seen]))
    done = opdb("errata", "page", str(rows), "--specs", MINI, "--output", str(page), "--date", "2026-11-26")
    assert done.returncode == 0, done.stderr
    assert "Measured on 2026-11-26" in page.read_text()
    assert "HTP-9999" not in page.read_text()  # the catalog has no HTP-9999
