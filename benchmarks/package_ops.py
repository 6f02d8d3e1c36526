"""Every op that has a kernel, as an op package of QNN's CPU and HTP backends, next to the same kernel called from Python.

    python benchmarks/package_ops.py [OP ...] [--backend CPU|HTP] [--qnn 2.47] [--soc SM8650] [--folder DIR] [--cases N]

One package of all ops is written and compiled (kept in --folder, where it is given, and used again); then each case of
``opdb conformance`` about the op definition alone runs in a graph of one node.  Both run the same C, so the results are
compared bit by bit.  Prints for each op the cases that are equal, and for the others why; in the end the totals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from opdb import package
from opdb.codegen import packages
from opdb.codegen.constants import PACKAGE
from opdb.conformance.cases import Case, cases
from opdb.conformance.data import inputs as data_of
from opdb.errors import OpdbError
from opdb.graph import single
from opdb.probe.client import VendorWorker
from opdb.runtime import native
from opdb.runtime.qnn import libraries
from opdb.settings import specs_folder
from opdb.spec.catalog import Catalog
from opdb.store import read_catalog

NAME = "OpdbAll"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--backend", default="HTP", choices=("CPU", "HTP"))
    parser.add_argument("--qnn", default="2.47")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cases", type=int, default=10_000, help="the most cases of an op")
    asked = parser.parse_args()
    catalog = read_catalog(specs_folder())
    chosen = [n for n, op in catalog.ops.items() if op.kernel and op.package == PACKAGE]
    chosen = [n for n in asked.ops or chosen if n in chosen]
    with tempfile.TemporaryDirectory() as spare:
        folder = (asked.folder or Path(spare)) / asked.backend.lower()
        made = package.write(catalog, chosen, folder, package=NAME, backend=asked.backend, force=True)
        library = made.library if made.library.exists() else package.build(made)
        found = libraries.find(asked.qnn)
        with VendorWorker(
            asked.backend,
            None if asked.backend == "CPU" else asked.soc,
            libraries=found.path(asked.backend).parent,
            op_packages=[library],
        ) as worker:
            totals: Counter[str] = Counter()
            for name in chosen:
                counts = told(catalog, name, worker, asked)
                totals += counts
    print(f"{asked.backend} {asked.qnn}: " + ", ".join(f"{n} {kind}" for kind, n in totals.most_common()))
    return 1 if totals["wrong"] or totals["failed"] else 0


def told(catalog: Catalog, name: str, worker: VendorWorker, asked: argparse.Namespace) -> Counter[str]:
    counts: Counter[str] = Counter()
    why: dict[str, str] = {}
    for case in of_definition(catalog, name, asked.cases):
        kind, text = said(catalog, case, worker, asked.backend)
        counts[kind] += 1
        if kind != "equal":
            why.setdefault(kind, f"{case.id}: {text}")
    print(f"{name:28} " + ", ".join(f"{n} {kind}" for kind, n in counts.items()), flush=True)
    for kind, text in why.items():
        print(f"    {kind}: {text[:200]}", flush=True)
    return counts


def of_definition(catalog: Catalog, name: str, most: int) -> Iterator[Case]:
    yield from [c for c in cases(catalog, name).cases if not c.backend and c.runs][:most]


def said(catalog: Catalog, case: Case, worker: VendorWorker, backend: str) -> tuple[str, str]:
    """What became of a case: equal, wrong, no kernel, hidden types, failed."""
    shown = packages.types(catalog.backends[backend])
    hidden = {t.dtype for t in (*case.config.inputs, *case.config.outputs) if t.type != "NULL"} - set(shown)
    if hidden:
        return "hidden", f"{backend} shows op packages no {', '.join(sorted(hidden))}"
    inputs = data_of(case.id, case.config)
    try:
        wanted = native.run(case.config, inputs)
    except OpdbError as error:
        return "no kernel", str(error)
    graph = single(replace(case.config, package=NAME), inputs)
    given = {n: inputs[int(n)] for n, t in graph.tensors.items() if t.type == "APP_WRITE"}
    try:
        answer = worker.run(graph, given)
    except OpdbError as error:
        return "unsupported", str(error)
    if answer.verdict != "yes":
        why = [line.partition("error: ")[2] for line in answer.log if line.startswith("error: ")]
        return "failed", f"{answer.stage} {answer.verdict} {answer.code}: {' | '.join(why[:2])}"
    pairs = list(zip((answer.outputs[t.name] for t in graph.outputs), wanted, strict=True))
    if all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in map(flat, pairs)):
        return "equal", ""
    worst = next(i for i, (a, b) in enumerate(map(flat, pairs)) if not np.array_equal(a, b))
    return "wrong", f"output {worst}"


def flat(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    a, b = (np.ascontiguousarray(p).reshape(-1) for p in pair)
    return a, b


if __name__ == "__main__":
    sys.exit(main())
