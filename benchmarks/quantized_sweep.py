"""Every module of the corpus, quantized for chips with and without floats: compares check with compile, and the values with PyTorch.

The corpus: the modules of corpus/operators/every_module.py, the random modules of htp_modules.py --between, and the chains of
float_chains.py.  For each chip and
scheme the verdict of ``opdb check --quantize`` stands beside the outcome of ``opdb compile --quantize --data example`` (with the
library's finalization), and the context is run on the emulation.  Results within BOUND of _quantized_case.py
of PyTorch's floats are right; others are "coarse" if the same graph, computed in floats with every tensor rounded to its
encoding, is as far off.  Rows go to FOLDER/results.jsonl as they come; existing rows are not measured again.

    python benchmarks/quantized_sweep.py [--folder build/quantized-sweep] [--soc SOC]... [--scheme 8a8w]... [--only WORD]...
                                         [--each N] [--random N] [--processes 2] [--again] [--page]

``--only``: modules whose name has the word; ``--each N``: one module in N; ``--again``: measures existing rows again;
``--page``: writes docs/results/quantized-sweep.md from the rows measured before, and ends.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from _quantized_corpus import Job, Work, corpus, kinds
from _quantized_page import ORDERLY, outcome, page

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "results" / "quantized-sweep.md"
SOCS = ("QCM6490", "SM8350", "SM8550", "SM8650", "SM8750")
SCHEMES = ("8a8w", "16a8w")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "quantized-sweep")
    parser.add_argument("--soc", action="append", choices=SOCS)
    parser.add_argument("--scheme", action="append", choices=SCHEMES)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--each", type=int, default=1)
    parser.add_argument("--random", type=int, default=100, help="how many random modules, and as many chains")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--date", default="", help="of the measurement, for --page")
    asked = parser.parse_args()
    results = asked.folder / "results.jsonl"
    if asked.page:
        PAGE.write_text("\n".join(page(list(read(results).values()), kinds(), asked.date)) + "\n")
        return 0
    asked.folder.mkdir(parents=True, exist_ok=True)
    known = read(results)
    jobs = list(_jobs(asked, {} if asked.again else known))
    print(f"{len(jobs)} modules to measure, {len(known)} rows are there", flush=True)
    measured = _measured(jobs, asked.processes, results)
    print(", ".join(f"{n} {kind}" for kind, n in Counter(map(outcome, measured)).most_common()))
    return 0


def read(results: Path) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The last row of each module, chip and scheme."""
    lines = results.read_text().splitlines() if results.is_file() else []
    return {(r["case"], r["soc"], r["scheme"]): r for r in map(json.loads, lines)}


def _jobs(asked: argparse.Namespace, known: Mapping[tuple[str, str, str], Any]) -> Iterator[Job]:
    names = [n for n in corpus(asked.random) if not asked.only or any(word in n for word in asked.only)]
    for name in names[:: asked.each]:
        wished = tuple(
            (soc, scheme)
            for soc in asked.soc or SOCS
            for scheme in asked.scheme or SCHEMES
            if (name, soc, scheme) not in known
        )
        if wished:
            yield Job(name, wished)


def _measured(jobs: Iterable[Job], processes: int, results: Path) -> list[dict[str, Any]]:
    """Measures the jobs; each row is written as it comes, and printed if something is wrong."""
    from opdb.core.errors import OpdbError
    from opdb.core.pool import open_pool

    os.environ["PYTHONPATH"] = str(HERE)  # where a process of the pool finds Work
    found = []
    with results.open("a") as file, open_pool(Work(), processes) as pool:
        for job, answer in pool.answers(jobs):
            if isinstance(answer, OpdbError):
                answer = [
                    {"case": job.name, "soc": soc, "scheme": scheme, "check": "", "compile": "traceback", "values": "",
                     "found": None, "rounded": None, "steps": None, "why": str(answer), "told": []}
                    for soc, scheme in job.wished
                ]  # fmt: skip
            for row in answer:
                file.write(json.dumps(row) + "\n")
                if outcome(row) not in ORDERLY:
                    print(line(row), flush=True)
            file.flush()
            found += answer
    return found


def line(row: Mapping[str, Any]) -> str:
    def db(value: float | None) -> str:
        return "-" if value is None else f"{value:.0f}"

    numbers = f"{db(row['found'])} dB, rounded {db(row['rounded'])}, {db(row['steps'])} steps"
    where = f"{row['case']} {row['soc']} {row['scheme']}: {outcome(row)}: {row['compile']} {row['values']}"
    return f"{where}: {numbers}: {row['why']} {'; '.join(row['told'])}"[:420]


if __name__ == "__main__":
    sys.exit(main())
