"""Runs ExecuTorch's own suites with its builders and with opdb's; prints a table of passed tests.

    python benchmarks/executorch_suite [--suite operators] [--soc SM8650] [--builders opdb] [--only REGEX] [-o DIR]

``emulator`` is the suite of the Qualcomm backend on v68 (503 tests in 1.4.1, 556 in 1.5.1), ``delegate`` the operator tests of its older
test_qnn_delegate.py, ``passes`` the tests of its passes, ``operators`` the suite that all backends share, in its Qualcomm flows.
Needs the extra ``suite`` (imports of the suites).  A run continues where the last one ended.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

from opdb.plugins.executorch import env

FLOWS = ("qnn", "qnn_8a8w", "qnn_16a8w", "qnn_16a4w", "qnn_16a4w_block", "qnn_16a16w")
OUTCOMES = ("right", "left", "wrong", "failed", "skipped")
CRASHED = {
    "passed": False, "runs": 0, "wrong": [], "why": "crashed", "subtests": [{"outcome": "failed", "error": "crashed"}]
}  # fmt: skip


@dataclass(frozen=True)
class Suite:
    """``plugins`` of this folder; ``tests``: files or folders under the executorch package; ``told``: options for its conftest.

    ``columns``: title -> regular expression of the tests in it.
    """

    plugins: tuple[str, ...]
    tests: tuple[str, ...]
    told: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)


QUALCOMM = "backends/qualcomm/tests"
SUITES = {
    "emulator": Suite(
        ("recording", "emulator"),
        (f"{QUALCOMM}/rework/htp/op/v68/test.py",),
        ("--build_folder", "build-x86"),
        {"8a": r"\[8a", "16a": r"\[16a", "fp": r"\[fp"},  # e.g. [8a8w_pcq]
    ),
    "delegate": Suite(
        ("recording", "delegate"),
        (f"{QUALCOMM}/test_qnn_delegate.py",),
        (),
        {"floats": "^TestQNNFloatingPoint", "quantized": "^TestQNNQuantized"},
    ),
    "passes": Suite(
        ("recording", "passes"),
        (f"{QUALCOMM}/rework/passes/test.py", f"{QUALCOMM}/test_passes.py", f"{QUALCOMM}/test_conv_bn_qat.py"),
        (),
        {"passes": ""},
    ),
    "operators": Suite(("operators",), ("backends/test/suite/operators",)),
}  # fmt: skip
ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--suite", default="emulator", choices=tuple(SUITES))
    parser.add_argument("--soc", action="append", help="SM8350 and SM8650 by default")
    parser.add_argument("--builders", action="append", choices=("stock", "opdb"), help="both by default")
    parser.add_argument("--only", default="", help="regular expression of test names; e.g. test_gelu")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "executorch_suite")
    parser.add_argument("--again", action="store_true", help="forget earlier results of this folder")
    asked = parser.parse_args()
    asked.output = asked.output.resolve()  # the child runs in it
    asked.output.mkdir(parents=True, exist_ok=True)
    for soc in asked.soc or ("SM8350", "SM8650"):
        results = {b: run(soc, b, asked) for b in asked.builders or ("stock", "opdb")}
        if asked.suite == "operators":
            print_outcomes(soc, results)
        else:
            print_table(soc, results, SUITES[asked.suite].columns)
    return 0


def run(soc: str, builders: str, asked: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Test -> its line.  If a library kills the child, the next child continues after that test."""
    prefix = "" if asked.suite == "emulator" else f"{asked.suite}-"
    results = asked.output / f"{prefix}{soc}-{builders}.jsonl"
    running = results.with_suffix(".running")
    if asked.again:
        results.unlink(missing_ok=True)
    while True:
        running.unlink(missing_ok=True)
        start(soc, builders, asked, results)
        last = running.read_text() if running.exists() else ""
        if not last or last in read(results):
            break
        with results.open("a") as out:  # it killed the process before its report
            out.write(json.dumps({"test": last, **CRASHED}) + "\n")
    return {t: line for t, line in read(results).items() if re.search(asked.only, t)}


def package() -> Path:
    found = util.find_spec("executorch")
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations)))


def start(soc: str, builders: str, asked: argparse.Namespace, results: Path) -> None:
    suite = SUITES[asked.suite]
    variables = env.prepare().child() | {
        "OPDB_SUITE_SOC": soc,
        "OPDB_SUITE_BUILDERS": builders,
        "OPDB_SUITE_ONLY": asked.only,
        "OPDB_SUITE_RESULTS": str(results),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    plugins = [word for plugin in suite.plugins for word in ("-p", plugin)]
    tests = [str(package() / t) for t in suite.tests]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", *suite.told, *tests]
    with results.with_suffix(".log").open("a") as log:
        subprocess.run(command, env=variables, stdout=log, stderr=log, cwd=results.parent, check=False)


def read(results: Path) -> dict[str, dict[str, object]]:
    if not results.exists():
        return {}
    return {line["test"]: line for line in map(json.loads, results.read_text().splitlines())}


def print_table(
    soc: str, results: dict[str, dict[str, dict[str, object]]], columns: Mapping[str, str]
) -> None:
    """Counts passed tests, and tests whose outputs are also right by the honest tolerance; skipped ones do not count."""
    print(f"{soc:8} {'column':10}" + "".join(f"{b + ' passed':>16}{b + ' honest':>16}" for b in results))
    for column, tests in columns.items():
        cells = ""
        for lines in results.values():
            mine = [line for t, line in lines.items() if re.search(tests, t) and not line.get("skipped")]
            right = [m for m in mine if m["passed"] and not m["wrong"]]
            cells += (
                f"{sum(bool(m['passed']) for m in mine):>10} of {len(mine)}{len(right):>10} of {len(mine)}"
            )
        print(f"{'':8} {column:10}{cells}")
    if len(results) == 2:
        stock, own = results["stock"], results["opdb"]
        lost = [t for t in stock if stock[t]["passed"] and not own[t]["passed"]]
        print(f"{soc}: passed with ExecuTorch's builders only: {', '.join(lost) or 'none'}")


def print_outcomes(soc: str, results: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Prints the subtests of the shared suite by flow and outcome (``operators`` explains the outcomes)."""
    print(f"{soc:8} {'flow':16} {'builders':9}" + "".join(f"{o:>9}" for o in OUTCOMES) + f"{'all':>7}")
    for flow in FLOWS:
        for builders, lines in results.items():
            mine = [
                s for t, line in lines.items() if re.search(rf"\[{flow}[-\]]", t) for s in line["subtests"]
            ]
            counts = "".join(f"{sum(s['outcome'] == o for s in mine):>9}" for o in OUTCOMES)
            print(f"{'':8} {flow:16} {builders:9}{counts}{len(mine):>7}")
    if len(results) == 2:
        right = {b: {t for t, line in r.items() if all(s["outcome"] == "right" for s in line["subtests"])}
                 for b, r in results.items()}  # fmt: skip
        lost = sorted(right["stock"] & set(results["opdb"]) - right["opdb"])
        print(f"{soc}: right with ExecuTorch's builders only: {', '.join(lost) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
