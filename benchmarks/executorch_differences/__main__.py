"""Compares ExecuTorch's builders with opdb's on the same graphs, and proves each difference by numbers.

    python benchmarks/executorch_differences [--all] [--only REGEX] [-o DIR] [--page FILE] [--keep FILE]
    python benchmarks/executorch_differences --judge -o DIR [--page FILE] [--keep FILE]

The second runs nothing and judges the results in DIR.  Results are added to .jsonl files in DIR case by case; an
interrupted run continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
sys.path.insert(0, str(BENCHMARKS))
from executorch_differences import kept_rows, rows  # noqa: E402
from executorch_differences.run import compare, in_child, read  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="regular expression of names of cases")
    parser.add_argument("--all", action="store_true", help="all cases, not a few for each operator")
    output = BENCHMARKS.parent / "build" / "executorch_differences"
    parser.add_argument("-o", "--output", type=Path, default=output)
    parser.add_argument("--again", action="store_true", help="forget earlier results of this folder")
    parser.add_argument(
        "--page", type=Path, help="write the list as Markdown; e.g. docs/results/executorch-differences.md"
    )
    parser.add_argument(
        "--keep", type=Path, help="an earlier page: what differs as it did there is not run again"
    )
    parser.add_argument("--judge", action="store_true", help="run nothing")
    asked = parser.parse_args()
    kept = kept_rows.of_page(asked.keep.read_text()) if asked.keep else {}
    asked.output.mkdir(parents=True, exist_ok=True)
    if asked.again:
        for old in asked.output.glob("*.jsonl"):
            old.unlink()
    both = in_child("worker:both")
    if asked.judge:
        records, proofs = ([*read(asked.output / f"{kind}.jsonl").values()] for kind in ("records", "proofs"))
    else:
        names = in_child("cases:names", () if asked.all else both)
        records, proofs = compare([n for n in names if re.search(asked.only, n)], asked.output, kept)
    found = kept_rows.added(rows.judged(records, proofs, kept), records, kept)
    (asked.output / "rows.json").write_text(json.dumps(found, indent=1))
    told = rows.summary(found, records, both)
    if asked.page:
        asked.page.write_text(rows.page(found, told))
    print(told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
