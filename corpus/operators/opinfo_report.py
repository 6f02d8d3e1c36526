"""Runs every OpInfo sample and writes the figures: python corpus/operators/opinfo_report.py [OUTCOMES.jsonl]

The outcome of each sample is appended to the file; samples already in it are not run again.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from opinfo_known import KNOWN
from opinfo_run import FAILED, PLACES, REFUSED, RIGHT, Kernels, outcomes
from opinfo_samples import BY_NAME, TAKEN, UNTAKEN, kind_of, samples

from opdb.execute.libraries.client import VendorWorker
from opdb.generated.builders import TARGETS

#: Families of reasons, in search order.
FAMILIES = (
    ("size 0", r"has no element"),
    ("complex or another type without a counterpart", r"QNN has no counterpart of"),
    ("float64", r"\bf64\b"),
    ("rank above what the target takes", r"\.rank (must be|<=)|the rank of|rank must"),
    ("nothing is left to be computed", r"no node is left|is a constant|graph: "),
    ("types", r"TYPES_|types|data type|dtype"),
)


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "build/opinfo.jsonl")
    path.parent.mkdir(exist_ok=True)
    begun, rows = time.monotonic(), list(_read(path))
    done = {r["done"] for r in rows if "done" in r}
    vendors = {b: VendorWorker(b, p.soc, log_level="error") for b, p in PLACES.items() if p.backend}
    workers = {**vendors, "KERNELS": Kernels()}
    with open(path, "a") as out:
        for name, dtype in ((n, d) for n in BY_NAME for d in (*TAKEN, *UNTAKEN)):
            key = f"{name}-{kind_of(dtype)}"
            if key in done:
                continue
            found = samples(name, dtype) if dtype in TAKEN else islice(samples(name, dtype), 1)
            made: list[dict[str, Any]] = [asdict(o) for s in found for o in outcomes(s, workers)]
            made.append({"done": key})
            out.writelines(json.dumps(r) + "\n" for r in made)
            out.flush()
            rows += made
    for worker in vendors.values():
        worker.close()
    sys.stdout.write("\n".join(_figures([r for r in rows if "sample" in r])) + "\n")
    sys.stdout.write(f"{time.monotonic() - begun:.0f} s, {len(done)} OpInfos and types from {path}\n")


def _read(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def _figures(rows: list[dict[str, Any]]) -> Iterator[str]:
    names = {r["sample"].rsplit("-", 2)[0] for r in rows}
    reached = {t for r in rows for t in r["targets"]} & set(TARGETS)
    right = {t for r in rows if r["outcome"] == RIGHT for t in r["targets"]}
    yield f"{len(names)} OpInfos, {len({r['sample'] for r in rows})} samples"
    yield f"{len(reached)} of {len(TARGETS)} mapped targets reached, {len(right)} with right numbers"
    yield f"without an OpInfo: {', '.join(sorted(set(TARGETS) - reached))}"
    yield f"reached, never right: {', '.join(sorted(reached - right))}"
    for backend in PLACES:
        mine = [r for r in rows if r["backend"] == backend]
        yield f"{backend}: {dict(Counter(r['outcome'] for r in mine))}"
        yield f"  refused: {dict(Counter(_family(r['text']) for r in mine if r['outcome'] == REFUSED))}"
        off = [r for r in mine if r["outcome"] == FAILED]
        yield f"  failed, not listed: {[r['sample'] for r in off if not _listed(r['sample'], backend)]}"


def _family(text: str) -> str:
    return next((name for name, pattern in FAMILIES if re.search(pattern, text)), "a guard or another rule")


def _listed(sample: str, backend: str) -> bool:
    name, kind, number = sample.rsplit("-", 2)
    listed = KNOWN.get((name, kind, backend))
    return listed is not None and int(number) in listed.numbers


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
