"""Runs ExecuTorch's emulator suite with its builders and with opdb's; prints a table of what passes.

    python benchmarks/executorch_suite [--soc SM8650] [--builders opdb] [--only REGEX] [-o DIR]

Needs the extra ``suite`` (what the suite imports).  About 10 minutes for 501 tests and one kind of builders.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from importlib import util
from pathlib import Path

from opdb.executorch import env

COLUMNS = ("8a", "16a", "fp")
ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--soc", action="append", help="SM8350 and SM8650 by default")
    parser.add_argument("--builders", action="append", choices=("stock", "opdb"), help="both by default")
    parser.add_argument("--only", default="", help="regular expression of test names; ex) test_gelu")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "build" / "executorch_suite")
    parser.add_argument("--again", action="store_true", help="forget earlier results of this folder")
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    for soc in asked.soc or ("SM8350", "SM8650"):
        results = {b: run(soc, b, asked) for b in asked.builders or ("stock", "opdb")}
        print_table(soc, results)
    return 0


def run(soc: str, builders: str, asked: argparse.Namespace) -> dict[str, dict[str, object]]:
    """Test -> its line.  A child that a library kills is followed by one that goes on after that test."""
    results = asked.output / f"{soc}-{builders}.jsonl"
    running = results.with_suffix(".running")
    if asked.again:
        results.unlink(missing_ok=True)
    while True:
        running.unlink(missing_ok=True)
        start(soc, builders, asked.only, results)
        last = running.read_text() if running.exists() else ""
        if not last or last in read(results):
            break
        with results.open("a") as out:  # it killed the process before its report
            out.write(
                json.dumps({"test": last, "passed": False, "runs": 0, "wrong": [], "why": "crashed"}) + "\n"
            )
    return {t: line for t, line in read(results).items() if re.search(asked.only, t)}


def suite_folder() -> Path:
    found = util.find_spec("executorch")
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations))) / "backends/qualcomm/tests/rework/htp/op/v68"


def start(soc: str, builders: str, only: str, results: Path) -> None:
    variables = env.prepare().child() | {
        "OPDB_SUITE_SOC": soc,
        "OPDB_SUITE_BUILDERS": builders,
        "OPDB_SUITE_ONLY": only,
        "OPDB_SUITE_RESULTS": str(results),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider",
               "--build_folder", "build-x86", str(suite_folder() / "test.py")]  # fmt: skip
    with results.with_suffix(".log").open("a") as log:
        subprocess.run(command, env=variables, stdout=log, stderr=log, cwd=results.parent, check=False)


def read(results: Path) -> dict[str, dict[str, object]]:
    if not results.exists():
        return {}
    return {line["test"]: line for line in map(json.loads, results.read_text().splitlines())}


def print_table(soc: str, results: dict[str, dict[str, dict[str, object]]]) -> None:
    print(f"{soc:8} {'column':7}" + "".join(f"{b + ' passed':>16}{b + ' honest':>16}" for b in results))
    for column in COLUMNS:
        cells = ""
        for lines in results.values():
            mine = [line for t, line in lines.items() if column in re.split(r"[][-]", t)]
            right = [m for m in mine if m["passed"] and not m["wrong"]]
            cells += (
                f"{sum(bool(m['passed']) for m in mine):>10} of {len(mine)}{len(right):>10} of {len(mine)}"
            )
        print(f"{'':8} {column:7}{cells}")
    if len(results) == 2:
        stock, own = results["stock"], results["opdb"]
        lost = [t for t in stock if stock[t]["passed"] and not own[t]["passed"]]
        print(f"{soc}: passed with ExecuTorch's builders only: {', '.join(lost) or 'none'}")


if __name__ == "__main__":
    sys.exit(main())
