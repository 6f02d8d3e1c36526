"""A pytest plugin of the suites: selects the tests to run, and writes a JSON line for each.

Environment variables: ``OPDB_SUITE_ONLY``, regular expression of the tests to run; ``OPDB_SUITE_RESULTS``, file to which a
JSON line per test is added (tests that have one do not run again).  The name of the running test is in the file with the
suffix ``.running``.  The suite's own plugin puts its observations of a test into ``seen``: ``runs`` and ``wrong``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from _pytest.subtests import SubtestReport
from judge import left_out

seen: dict[str, Any] = {}
#: pytest's message for a unittest that is marked expectedFailure and passes.
PASSED_AGAINST_EXPECTATION = "Unexpected success"


def results() -> Path:
    return Path(os.environ["OPDB_SUITE_RESULTS"])


def name(nodeid: str) -> str:
    """The name of a test without its file; e.g. TestQNNQuantizedOperator::test_qnn_backend_abs."""
    return nodeid.partition("::")[2]


def register_opdb() -> None:
    """Registers opdb's builders instead of ExecuTorch's, if requested."""
    sys.path.append(str(Path(__file__).parents[2] / "tests"))
    from spare_time import spare_time

    spare_time()
    if os.environ["OPDB_SUITE_BUILDERS"] == "opdb":
        import opdb.plugins.executorch

        opdb.plugins.executorch.register(execution="emulator")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lines = results().read_text().splitlines() if results().exists() else []
    done = {json.loads(line)["test"] for line in lines}
    only = os.environ.get("OPDB_SUITE_ONLY", "")
    items[:] = [i for i in items if name(i.nodeid) not in done and re.search(only, name(i.nodeid))]


def pytest_runtest_setup(item: pytest.Item) -> None:
    torch.manual_seed(1126)  # the suite sets this seed only once, so inputs would depend on earlier tests


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    results().with_suffix(".running").write_text(name(nodeid))
    seen.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome == "failed":
        text = report.longreprtext
        said = [line[1:].strip() for line in text.splitlines() if line.startswith("E  ")]
        why = text if text == PASSED_AGAINST_EXPECTATION else " ".join(said)[:400]
        seen.setdefault("why", []).append(why + left_out())
    if isinstance(report, SubtestReport) or (report.when != "call" and report.outcome == "passed"):
        return
    line = {
        "test": name(report.nodeid),
        "passed": report.outcome == "passed" or _beyond(),
        "skipped": report.outcome == "skipped",
        "runs": seen.get("runs", 0),
        "wrong": seen.get("wrong", []),
        "why": "; ".join(dict.fromkeys(seen.get("why", []))) or _skipped(report),
        "seconds": round(report.duration, 2),
    }
    with results().open("a") as out:
        out.write(json.dumps(line) + "\n")


def _beyond() -> bool:
    """True if the only failure is that the suite expects a refusal or a failure, but the outputs are right."""
    said = [w for w in seen.get("why", []) if w and "failed subtest" not in w]
    beyond = all("DID NOT RAISE" in w or w.startswith(PASSED_AGAINST_EXPECTATION) for w in said)
    return bool(said) and beyond and not seen.get("wrong")


def _skipped(report: pytest.TestReport) -> str:
    where = report.longrepr
    return str(where[2]) if report.outcome == "skipped" and isinstance(where, tuple) else ""
