"""`opdb demo`: its report begins with the model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.torch, pytest.mark.executorch, pytest.mark.vendor, pytest.mark.slow]


def test_the_report_begins_with_the_model_its_differences_and_the_program(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = subprocess.run(
        [sys.executable, "-m", "opdb", "demo", "--report", str(report), "--json"],
        env={**os.environ, "OPDB_URL": f"sqlite:///{tmp_path / 'opdb.db'}"},
        capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["report"] == str(report / "index.html") and said["failures"] == 0
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "<title>opdb demo</title>" in page
    assert re.findall(r"<h2[^>]*>(.*?)</h2>", page) == [
        "What runs on HTP of SM8650",
        "Differences from PyTorch in float32",
        "The ExecuTorch program",
        "A refused configuration",
        "Conformance",
    ]
    assert f"2 of 2 nodes run on HTP of SM8650</b>; {len(said['compared'])} of 5 results" in page
    for compared in said["compared"]:
        assert compared["ok"] and f">{compared['relative']:.3g}</td>" in page, compared
    program = (report / "model.pte").read_bytes()
    assert program[4:8] == b"ET12" and f"model.pte</a>, {len(program)} bytes" in page
    assert "Nearest accepted: " in page and "Qualcomm&#x27;s library" not in page.partition("<h2")[0]
    linked = re.findall(r'href="([^"]+)"', page)
    assert linked == ["check.html", "model.pte", "cases/index.html"]
    assert all((report / name).is_file() for name in linked)
    assert "opdb conformance" in (report / "cases" / "index.html").read_text(encoding="utf-8")
