"""Time per op config of the generated validators: Python, C through the binding, C alone.

Whole calls on the first sample of each op, judged for HTP SM8650; the best of five rounds, in microseconds.
"C alone" calls the function that an embedding program would call, with the structures made once.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable

from opdb.compiled import CompiledOp
from opdb.generated import validators
from opdb.runtime import native
from opdb.samples import sample_config
from opdb.settings import specs_folder
from opdb.store import read_catalog
from opdb.validate import Target

ROUNDS, CALLS = 5, 2000


def best(call: Callable[[], object]) -> float:
    """Microseconds per call."""
    return min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6


def measure(compiled: CompiledOp, target: Target) -> tuple[float, float, float]:
    """Microseconds per op config: Python, C through the binding, C alone."""
    config = sample_config(compiled, 0, {s.name: "f32" for s in compiled.slots})
    module, context = validators.module(compiled.name), target.context()
    assert module is not None
    arena = native._Arena()
    op, report, entry = arena.op(config), native.ffi.new("opdb_report *"), native._entry(compiled.name)
    fields = {"backend": validators.BACKENDS.index("HTP"), "arch": context.arch, "sdk": context.sdk}
    c_target = native.ffi.new("opdb_target *", fields)

    def alone() -> None:
        report.n = 0
        entry.validate(op, c_target, report)

    return (
        best(lambda: module.validate(config, context)),
        best(lambda: native.validate(config, context)),
        best(alone),
    )


def main() -> None:
    catalog = read_catalog(specs_folder())
    print(f"{'op':20} {'Python':>8} {'C bound':>8} {'C alone':>8}")
    for name in catalog.ops:
        times = measure(catalog.compiled(name), Target("HTP", "SM8650"))
        print(f"{name:20} {times[0]:8.2f} {times[1]:8.2f} {times[2]:8.2f}")


if __name__ == "__main__":
    main()
