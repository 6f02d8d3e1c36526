"""Every op that has a kernel, as a custom op of Cloud AI, next to the same kernel called from Python.

    python benchmarks/aic_ops.py [OP ...] [--api 1.17|5.0.0|1.21] [--folder DIR] [--cases N]

Packages of ten ops are written and compiled (kept in --folder, where it is given, and used again).  Each case of ``opdb
conformance`` about the op definition then goes through verify, infer and select; the kernel for the host; and the kernel
for the card in four threads.  All run the same C, so the results are compared bit by bit.  Prints for each op the cases
that are equal, and for the others why; in the end the totals.
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

import numpy as np
from package_ops import as_held, of_definition

from opdb import package
from opdb.codegen import aic
from opdb.conformance import cloud_ai
from opdb.conformance.cases import Case
from opdb.conformance.data import inputs as data_of
from opdb.errors import OpdbError
from opdb.runtime import native
from opdb.settings import specs_folder
from opdb.spec.compiled import CompiledOp
from opdb.store import read_catalog

GROUP = 10
#: For this machine alone, which compiles several times as fast; the bits are those of the clone that it would choose.
FAST = " ".join("-O2" if f == "-O3" else f for f in (*aic.CFLAGS, "-DOPDB_NO_CLONES", "-march=native"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("ops", nargs="*")
    parser.add_argument("--api", default="1.21", choices=tuple(aic.GENERATIONS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--cases", type=int, default=10_000, help="the most cases of an op")
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
            found = {op.name: list(of_definition(catalog, op.name, asked.cases)) for op in ops}
            choice = aic.Choice(asked.api, counts=_counts(ops, found))
            package.write_aic(catalog, [op.name for op in ops], choice, folder, force=True)
            totals += _of_group(folder, asked.api, ops, found)
    print(
        f"Cloud AI {asked.api}: {len(chosen)} ops; "
        + ", ".join(f"{n} {kind}" for kind, n in totals.most_common())
    )
    return 1 if totals["wrong"] or totals["failed"] else 0


def _of_group(
    folder: Path, api: str, ops: Sequence[CompiledOp], found: Mapping[str, Sequence[Case]]
) -> Counter[str]:
    made = subprocess.run(
        ["make", "-sk", "-j3", f"CFLAGS={FAST}", "all", "card"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    for line in made.stderr.splitlines():
        if "error:" in line:
            print(line)
    totals: Counter[str] = Counter()
    for op in ops:
        try:
            totals += cloud_ai.in_child(_of_op, folder, api, op, found[op.name])
        except OpdbError as error:
            totals["failed"] += 1
            print(f"    {op.name}: {error}")
    return totals


def _counts(ops: Sequence[CompiledOp], found: Mapping[str, Sequence[Case]]) -> aic.Counts:
    """As many tensors as the widest case has, where a slot is variadic."""

    def most(side: str) -> dict[str, int]:
        return {
            op.name: max((len(getattr(c.config, side)) for c in found[op.name]), default=1)
            for op in ops
            if getattr(op, side)[-1:] and getattr(op, side)[-1].variadic
        }

    return aic.Counts(most("inputs"), most("outputs"))


def _of_op(folder: Path, api: str, op: CompiledOp, cases: Sequence[Case]) -> Counter[str]:
    loaded = cloud_ai.Package(folder, api, op.name)
    rows = aic.rows(op)
    counts: Counter[str] = Counter()
    why: dict[str, str] = {}
    for case in cases:
        kind, text = _of_case(loaded, rows, case)
        counts[kind] += 1
        if kind != "equal":
            why.setdefault(kind, f"{case.id}: {text}")
    print(f"{op.name:28} " + ", ".join(f"{n} {kind}" for kind, n in counts.items()), flush=True)
    for kind, text in why.items():
        print(f"    {kind}: {text[:200]}", flush=True)
    return counts


def _of_case(loaded: cloud_ai.Package, rows: Sequence[dict[str, str]], case: Case) -> tuple[str, str]:
    config = as_held(replace(case.config, inputs=tuple(case.config.inputs)))
    if text := cloud_ai.unfit(loaded.entry, rows, config):
        return "cases that do not fit", text
    inputs = data_of(case.id, case.config)
    try:
        wanted = native.run(config, inputs)
    except OpdbError as error:
        return "no kernel", str(error)
    good, log = loaded.verify(config)
    if not good:
        return "failed", f"verify: {log}"
    shapes, log = loaded.infer(config)
    if shapes is None or [s for _, s in shapes] != [t.shape for t in config.outputs]:
        return "failed", f"infer: {shapes} {log}"
    if loaded.select(config, "AIC") != f"{config.op}AIC":
        return "failed", "select"
    for ran in (loaded.on_host(config, inputs), loaded.on_card(config, inputs)):
        if ran.syncs not in ([], [1] * cloud_ai.THREADS) or ran.log:
            return "failed", f"{ran.syncs} {ran.log}"
        if any(
            a.tobytes() != np.ascontiguousarray(b).tobytes() for a, b in zip(ran.outputs, wanted, strict=True)
        ):
            return "wrong", "host" if not ran.syncs else "card"
    return "equal", ""


if __name__ == "__main__":
    sys.exit(main())
