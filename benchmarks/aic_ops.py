"""Every op that has a kernel, as a custom op of Cloud AI, next to the same kernel called from Python.

    python benchmarks/aic_ops.py [OP ...] [--executor machine|qemu|threads|addresses] [--api 1.17|5.0.0|1.21] [--folder DIR] [--cases N]

Packages of ten ops are written and compiled (with --folder kept there and reused).  Each case of ``opdb conformance`` about
the op definition then runs, with --cases the first N of each op that fit:

    machine    verify, infer and select; the kernel for the host; the kernel for the card in four threads
    qemu       the kernel for the card, compiled for Hexagon, in four threads under QEMU (tools/with-hexagon brings both)
    threads    the kernel for the card in four threads under ThreadSanitizer, by the program of ``opdb aic check``
    addresses  the same with AddressSanitizer and UBSan

All run the same C, so the results are compared bit by bit.  Prints for each op the number of equal cases, the reasons of the
others, and at the end the totals.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from _aic_executors import EXECUTORS, Executor
from package_ops import as_held, of_definition

from opdb.catalog.store import read_catalog
from opdb.core.errors import OpdbError
from opdb.core.settings import specs_folder
from opdb.measure.conformance.cases import Case
from opdb.measure.conformance.data import inputs as data_of
from opdb.plugins.cloud_ai import aic_package, conformance
from opdb.plugins.cloud_ai.codegen import aic
from opdb.runtime import native
from opdb.spec.definitions import CompiledOp

GROUP = 10
#: Flags for this machine only, which compile several times as fast; the bits are those of the clone it would choose.
FAST = ("-DOPDB_NO_CLONES", "-march=native")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--executor", default="machine", choices=tuple(EXECUTORS))
    parser.add_argument("--api", default="1.21", choices=tuple(aic.GENERATIONS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cases", type=int, default=10_000, help="the most cases of an op that fit")
    asked = parser.parse_args()
    catalog = read_catalog(specs_folder())
    kernels = [
        catalog.compiled(n) for n, op in catalog.ops.items() if op.kernel and n in (asked.ops or catalog.ops)
    ]
    totals: Counter[str] = Counter()
    for op in kernels:
        if why := aic.unfit(op):
            print(f"{op.name:28} does not fit: {why}")
            totals["ops that do not fit"] += 1
    chosen = [op for op in kernels if not aic.unfit(op)]
    with tempfile.TemporaryDirectory() as spare:
        for at in range(0, len(chosen), GROUP):
            ops = chosen[at : at + GROUP]
            folder = (asked.folder or Path(spare)) / f"{at:03}"
            found = {op.name: list(of_definition(catalog, op.name)) for op in ops}
            choice = aic.Choice(asked.api, counts=_counts(ops, found))
            aic_package.write(catalog, [op.name for op in ops], choice, folder, force=True)
            _make(folder, EXECUTORS[asked.executor], ops)
            for op in ops:
                totals += _of_op(folder, asked, op, found[op.name])
    print(
        f"Cloud AI {asked.api}, {asked.executor}: {len(chosen)} ops; "
        + ", ".join(f"{n} {kind}" for kind, n in totals.most_common())
    )
    return 1 if totals["wrong"] or totals["failed"] else 0


def _make(folder: Path, executor: type[Executor], ops: Sequence[CompiledOp]) -> None:
    if not (targets := executor.needs(ops)):
        return
    flags = " ".join(executor.optimize if f == "-O3" else f for f in (*aic.CFLAGS, *FAST))
    command = ["make", "-sk", "-j3", f"CFLAGS={flags}", *targets]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    for line in made.stderr.splitlines():
        if "error:" in line:
            print(line)


def _counts(ops: Sequence[CompiledOp], found: Mapping[str, Sequence[Case]]) -> aic.Counts:
    """The number of tensors in a variadic slot: that of the widest case."""

    def most(side: str) -> dict[str, int]:
        return {
            op.name: max((len(getattr(c.config, side)) for c in found[op.name]), default=1)
            for op in ops
            if getattr(op, side)[-1:] and getattr(op, side)[-1].variadic
        }

    return aic.Counts(most("inputs"), most("outputs"))


def _of_op(folder: Path, asked: argparse.Namespace, op: CompiledOp, cases: Sequence[Case]) -> Counter[str]:
    """Runs the cases in a child process, which a kernel may crash."""
    try:
        counts, why = conformance.in_child(_counted, folder, asked, op, cases)
    except OpdbError as error:
        counts, why = Counter({"failed": 1}), {"failed": str(error)}
    print(f"{op.name:28} " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    for kind, text in why.items():
        print(f"    {kind}: {text[:200]}")
    sys.stdout.flush()
    return counts


def _counted(
    folder: Path, asked: argparse.Namespace, op: CompiledOp, cases: Sequence[Case]
) -> tuple[Counter[str], dict[str, str]]:
    rows, counts, why = aic.rows(op), Counter[str](), dict[str, str]()
    with EXECUTORS[asked.executor](folder, asked.api, op.name) as executor:
        for case in cases:
            kind, text = _of_case(executor, rows, case)
            counts[kind] += 1
            if kind != "equal":
                why.setdefault(kind, f"{case.id}: {text}")
            if counts.total() - counts["cases that do not fit"] - counts["no kernel"] == asked.cases:
                break
    return counts, why


def _of_case(executor: Executor, rows: Sequence[dict[str, str]], case: Case) -> tuple[str, str]:
    config = as_held(replace(case.config, inputs=tuple(case.config.inputs)))
    if text := conformance.unfit(executor.entry, rows, config) or executor.unfit(config):
        return "cases that do not fit", text
    inputs = data_of(case.id, case.config)
    try:
        wanted = native.run(config, inputs)
    except OpdbError as error:
        return "no kernel", str(error)
    try:
        for where, ran in executor.runs(config, inputs):
            if ran.syncs not in ([], [1] * conformance.THREADS) or ran.log:
                return "failed", f"{where}: {ran.syncs} {ran.log}"
            if not executor.equal(config, inputs, ran.outputs, wanted):
                return "wrong", where
    except OpdbError as error:
        return "failed", str(error)
    return "equal", ""


if __name__ == "__main__":
    sys.exit(main())
