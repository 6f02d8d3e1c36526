"""Nanoseconds per op config: the generated validators beside the library's own call.

Takes for each op and backend the first config that both accept, a sample in a row of types: "Python" and "C bound" are the
whole calls, "C" the function that an embedding program calls, "vendor" is ``QnnBackend_validateOpConfig``; for
the last two the structures are made once.  HTP is judged for --soc.  The best of five rounds.  "ratio" is vendor / C.
A child process first finds the configs that the library accepts: some would crash this one.
"""

from __future__ import annotations

import argparse
import statistics
import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.core.settings import specs_folder
from opdb.execute.libraries.client import VendorWorker
from opdb.generated import validators
from opdb.measure.conformance.cases import cases
from opdb.runtime import native
from opdb.runtime.qnn.backend import Backend
from opdb.runtime.qnn.native import Arena, lib
from opdb.runtime.qnn.structs import op_config
from opdb.spec.catalog import Catalog

ROUNDS, SECONDS = 5, 0.002


def best(call: Callable[[], object]) -> float:
    """Nanoseconds per call."""
    timer = timeit.Timer(call)
    calls = 1
    while timer.timeit(calls) < SECONDS:
        calls *= 4
    return min(timer.repeat(number=calls, repeat=ROUNDS)) / calls * 1e9


def accepted(catalog: Catalog, target: Target) -> Iterator[OpConfig]:
    """One config of each op that the validators and the library accept."""
    with VendorWorker(target.backend or "", target.soc, timeout=20, log_level="error") as worker:
        supported = set(worker.supported_operations())
        for op in catalog.ops:
            if op not in supported or catalog.ops[op].package != "qti.aisw":
                continue
            made = cases(catalog, op, (target.soc or "SM8650",)).cases
            good = [c.config for c in made if c.kind == "positive" and c.backend == target.backend]
            yield from [c for c in good[:20] if worker.validate(c).verdict == "accept"][:1]


def measure(config: OpConfig, target: Target, backend: Backend) -> tuple[float, float, float, float]:
    """Nanoseconds: Python, C through the binding, C alone, the library's call."""
    module, context = validators.module(config.op), target.context()
    ours, theirs = native.Arena(), Arena()
    op, report, entry = ours.op(config), native.ffi.new("opdb_report *"), native._entry(config.op)
    fields = asdict(context) | {"backend": validators.BACKENDS.index(target.backend or "")}
    c_target = native.ffi.new("opdb_target *", fields)
    qnn_op, interface, pointer = op_config(theirs, config), backend.session.interface, backend.pointer

    def alone() -> None:
        report.n = 0
        entry.validate(op, c_target, report)

    return (
        best(lambda: module.validate(config, context)),
        best(lambda: native.validate(config, context)),
        best(alone),
        best(lambda: lib.opdb_qnn_validate(interface, pointer, qnn_op)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--backend", action="append", choices=("CPU", "HTP"), help="default: both")
    parser.add_argument("--soc", default="SM8650")
    options = parser.parse_args()
    catalog = read_catalog(specs_folder())
    for name in options.backend or ("CPU", "HTP"):
        target = Target(name, options.soc if name == "HTP" else None)
        print(
            f"{name + ' ' + (target.soc or ''):32} {'Python':>9} {'C bound':>9} {'C':>7} {'vendor':>9} {'ratio':>7}"
        )
        rows = []
        configs = list(accepted(catalog, target))
        backend = Backend.open(name, target.soc, log_level="error")
        for config in configs:
            rows.append(measure(config, target, backend))
            print(f"{config.op:32} " + form(rows[-1]))
        print(
            f"{f'median of {len(rows)} ops':32} "
            + form(tuple(map(statistics.median, zip(*rows, strict=True))))
        )


def form(row: tuple[float, ...]) -> str:
    python, bound, alone, vendor = row
    return f"{python:9.0f} {bound:9.0f} {alone:7.0f} {vendor:9.0f} {vendor / alone:7.1f}"


if __name__ == "__main__":
    main()
