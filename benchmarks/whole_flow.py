"""Runs the modules of corpus/operators through ExecuTorch's whole flow with opdb's builders; reports delegation and accuracy.

    python benchmarks/whole_flow.py [NAME ...] [--recipe 8a8w] [--soc SM8650] [--json FILE]

About 750 modules, one for each way in which a mapped ATen target is used, compiled and run on the emulation;
corpus/operators/whole_flow.py explains the words.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

COVERAGE = Path(__file__).parents[1] / "corpus" / "operators"
CHUNK = 12  # modules to a child process


def lines_of(names: list[str], recipe: str, soc: str) -> list[dict[str, Any]]:
    """The lines of the modules; one that crashes its process is measured alone."""
    from opdb.plugins.executorch import env, process

    try:
        found: list[dict[str, Any]] = process.call(
            "whole_flow:measure", names, recipe, soc, environment=env.prepare(), path=[COVERAGE],
            timeout=120.0 * len(names),
        )  # fmt: skip
    except process.ChildError as error:
        if len(names) == 1:
            why = str(error).splitlines()[0]
            return [{"name": names[0], "outcome": "ends", "left": {}, "error": 0.0, "why": why}]
        return [line for name in names for line in lines_of([name], recipe, soc)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="modules, or beginnings of their names; default all")
    parser.add_argument(
        "--recipe", default="fp16", help="fp16 (default), 8a8w, 16a8w, 16a4w, 16a4w_block or 16a16w"
    )
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--json", type=Path, help="write all lines to this file")
    asked = parser.parse_args()
    sys.path.insert(0, str(COVERAGE))
    from every_module import CASES

    names = [
        c.id
        for c in CASES
        if "HTP" in c.backends and (not asked.names or any(map(c.id.startswith, asked.names)))
    ]
    lines: list[dict[str, Any]] = []
    for i in range(0, len(names), CHUNK):
        lines += lines_of(names[i : i + CHUNK], asked.recipe, asked.soc)
        for line in lines[i:]:
            told = line.get("why") or "; ".join(f"{n}: {why}" for n, why in line["left"].items())
            print(f"{line['outcome']:7} {line['name']:44} {line['error']:10.4f}  {told}", flush=True)
        if asked.json:
            asked.json.write_text(json.dumps(lines, indent=1))
    print(
        f"{len(lines)} modules in {asked.recipe} on {asked.soc}:", dict(Counter(x["outcome"] for x in lines))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
