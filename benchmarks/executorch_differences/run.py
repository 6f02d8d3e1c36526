"""Jobs in child processes, their results as lines of files."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from executorch_differences import rows

from opdb.plugins.executorch import env, process

BENCHMARKS = Path(__file__).parents[1]
CHUNK = 120  # jobs of a child: ExecuTorch's process grows
TIMEOUT = 60.0  # seconds for a job
QUANTIZED = 2  # cases per operator that are also compared quantized
PROOFS = 2  # tries of a difference, until one has right numbers on either side

Line = dict[str, Any]


def compare(
    names: Sequence[str],
    output: Path,
    kept: Mapping[rows.Key, rows.Row] = MappingProxyType({}),
    precisions: Sequence[str] = ("fp16", "8a8w"),
) -> tuple[list[Line], list[Line]]:
    """The lines of both files in ``output``: the differences of each case, and the numbers of those not in ``kept``."""
    records: list[Line] = []
    proofs: list[Line] = []
    for precision in precisions:
        chosen = names if precision == "fp16" else quantized(records)
        made = lines("record", [(n, precision) for n in names if n in chosen], output / "records.jsonl")
        found: list[Line] = []
        for _ in range(PROOFS):
            found += lines("prove", to_prove(made, found, kept.keys()), output / "proofs.jsonl")
        proofs += found
        records += made
    return records, proofs


def lines(work: str, jobs: Sequence[tuple[Any, ...]], results: Path) -> list[Line]:
    """The line of each job.  Killing the child counts as a result, and the next child continues after it."""
    running = results.with_suffix(".running")
    survived: dict[tuple[str, str], Line] = {}  # the runs that a job had finished when it killed its process
    while todo := [j for j in jobs if j[:2] not in read(results)][:CHUNK]:
        running.unlink(missing_ok=True)
        given = [(*j, survived[j[:2]]) if j[:2] in survived else j for j in todo]
        try:
            in_child(f"worker:{work}", given, str(results), timeout=TIMEOUT * len(todo))
        except process.ChildError as e:
            if not running.exists():
                raise
            line = json.loads(running.read_text())
            said = "hangs" if e.kind == "hung" else "kills the process"
            if "runs" in line:
                line["runs"][line["stage"]] = {"right": False, "error": None, "failure": said, "left": []}
                survived[line["case"], line["precision"]] = line["runs"]
            else:
                with results.open("a") as out:
                    out.write(json.dumps({**line, "left": said}) + "\n")
        print(f"{work}: {len(read(results))} results", file=sys.stderr, flush=True)
    found = read(results)
    return [found[j[:2]] for j in jobs]


def read(results: Path) -> dict[tuple[str, str], Line]:
    if not results.exists():
        return {}
    return {(x["case"], x["precision"]): x for x in map(json.loads, results.read_text().splitlines())}


def quantized(records: Sequence[Line]) -> set[str]:
    """Up to QUANTIZED cases for each operator, cases with the fewest operators first."""
    reached = {r["case"]: rows.targets_of(r) for r in records if rows.targets_of(r)}
    uses: dict[str, int] = defaultdict(int)
    chosen = set()
    for name in sorted(reached, key=lambda n: len(reached[n])):
        if any(uses[t] < QUANTIZED for t in reached[name]):
            chosen.add(name)
            for t in reached[name]:
                uses[t] += 1
    return chosen


def to_prove(
    records: Sequence[Line], proofs: Sequence[Line], kept: Collection[rows.Key] = ()
) -> list[tuple[str, str, tuple[str, ...]]]:
    """A case for each difference that no case has settled yet, cases with the fewest differences first."""
    done = {(p["case"], p["precision"]) for p in proofs}
    settled = rows.settled(records, proofs) | set(kept)
    jobs = []
    for r in sorted(records, key=lambda r: len(r.get("differences", ()))):
        keys = {rows.key(r["precision"], d) for d in r.get("differences", ())}
        if (r["case"], r["precision"]) not in done and keys - settled:
            jobs.append((r["case"], r["precision"], tuple(sorted({d["target"] for d in r["differences"]}))))
            settled |= keys
    return jobs


def in_child(entry: str, *given: Any, timeout: float = 600.0) -> Any:
    return process.call(
        f"executorch_differences.{entry}", *given,
        environment=env.prepare(), path=[BENCHMARKS], timeout=timeout,
    )  # fmt: skip
