"""A pytest plugin for ExecuTorch's shared operator suite (``executorch/backends/test/suite/operators``).

Its Qualcomm flows (float, 8a8w, 16a8w, ...) run in the wheel's runtime.  Environment variables, as for
``emulator``: ``OPDB_SUITE_BUILDERS``, ``OPDB_SUITE_SOC``, ``OPDB_SUITE_ONLY``, ``OPDB_SUITE_RESULTS``.

A test has one subtest for each module that it lowers; the line of a test contains all of them.  ``outcome`` of a subtest:

* ``right``: delegated, and right by the suite's tolerance and by the honest one (``judge``);
* ``wrong``: the outputs are wrong by one of them; ``error`` says which;
* ``left``: nothing was delegated, or the runtime has no kernel for an op that fell back to the CPU;
* ``failed``: quantizing, lowering, loading or running raised;
* ``skipped``: the suite says that the backend is not to blame; e.g. the module cannot be exported.
"""

from __future__ import annotations

import json
import os
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from judge import honest, left_out, output_steps

_subtests: list[dict[str, Any]] = []
_seen: dict[str, Any] = {}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "timeout(seconds): the suite sets it for a plugin that is not needed here"
    )
    from executorch.backends.qualcomm.tests import tester
    from executorch.backends.test.harness import Tester

    soc = os.environ["OPDB_SUITE_SOC"]
    tester.ToEdgeTransformAndLower = partial(tester.ToEdgeTransformAndLower, soc_model=soc)
    Tester._calculate_reference_output = staticmethod(_remembering(Tester._calculate_reference_output))
    Tester._compare_outputs = staticmethod(_judging(Tester._compare_outputs))
    if os.environ["OPDB_SUITE_BUILDERS"] == "opdb":
        import opdb.plugins.executorch

        opdb.plugins.executorch.register(execution="emulator")


def _remembering(calculate: Any) -> Any:
    def calculate_reference_output(program: Any, inputs: Any) -> Any:
        steps = output_steps(program)
        _seen["steps"] = steps if any(steps) else None
        return calculate(program, inputs)

    return calculate_reference_output


def _judging(compare: Any) -> Any:
    def compare_outputs(reference: Any, outputs: Any, *rest: Any, **more: Any) -> None:
        wanted = [reference] if isinstance(reference, torch.Tensor) else list(reference)
        if [tuple(o.shape) for o in outputs] == [tuple(w.shape) for w in wanted]:
            _seen["wrong"] = honest(outputs, wanted, _seen["steps"])
        compare(reference, outputs, *rest, **more)

    return compare_outputs


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for plugin in config.pluginmanager.get_plugins():
        if stock := getattr(plugin, "run_test", None):  # the suite's conftest
            plugin.run_test = _noting(stock)
    results = _results()
    done = (
        {json.loads(line)["test"] for line in results.read_text().splitlines()} if results.exists() else set()
    )
    only = os.environ.get("OPDB_SUITE_ONLY", "")
    items[:] = [
        i for i in items
        if i.callspec.params["test_runner"].backend == "qualcomm"  # type: ignore[attr-defined]
        and i.name not in done
        and re.search(only, i.name)
    ]  # fmt: skip


def _noting(run_test: Any) -> Any:
    def noted(*arguments: Any, **more: Any) -> Any:
        _seen.clear()
        summary = run_test(*arguments, **more)
        error = _seen.get("wrong") or " ".join(str(summary.error or "").split())[:400]
        _subtests.append(
            {
                "outcome": _outcome(summary, error),
                "result": summary.result.name,
                "error": error,
                "undelegated": dict(summary.undelegated_op_counts or {}),
                "left": left_out(),
            }
        )
        return summary

    return noted


def _outcome(summary: Any, error: str) -> str:
    from executorch.backends.test.suite.reporting import TestResult

    result = summary.result
    if result == TestResult.SUCCESS:
        return "wrong" if error else "right"
    if result == TestResult.OUTPUT_MISMATCH_FAIL:
        return "wrong"
    no_kernel = result == TestResult.PTE_RUN_FAIL and bool(summary.undelegated_op_counts) and "0x14" in error
    if result == TestResult.SUCCESS_UNDELEGATED or no_kernel:
        return "left"
    return "skipped" if result == TestResult.SKIPPED else "failed"


def pytest_runtest_setup(item: pytest.Item) -> None:
    torch.manual_seed(0)  # inputs are made before the suite seeds
    random.seed(0)  # the suite adds a random number of its own


def pytest_runtest_logstart(nodeid: str, location: Any) -> None:
    _results().with_suffix(".running").write_text(nodeid.rpartition("::")[2])
    _subtests.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when != "call" and report.outcome == "passed":
        return
    if not _subtests:
        why = " ".join(report.longreprtext.split())[-400:]
        _subtests.append({"outcome": "skipped" if report.skipped else "failed", "error": why})
    line = {
        "test": report.nodeid.rpartition("::")[2],
        "subtests": list(_subtests),
        "seconds": round(report.duration, 2),
    }
    with _results().open("a") as out:
        out.write(json.dumps(line) + "\n")


def _results() -> Path:
    return Path(os.environ["OPDB_SUITE_RESULTS"])
