"""Ops in random sizes on HTP's emulation, next to opdb's kernels: which numbers differ.

Each op config is a sample of the catalog in the types of one row, with some sizes changed; opdb's rules accept it.  Half of
them come after a product by a half: some faults only occur there.  An error above TOLERANCE is wrong: for floats relative to
the largest result, for quantized numbers in steps, 16 bits as exact as half precision.  The findings include known quirks of
the library (specs/sdk): investigate the new ones.

    python benchmarks/htp_ops.py [--configs N] [--seed N] [--soc SM8650] [OP]...
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph, single
from opdb.core.op_config import OpConfig, Quant
from opdb.core.settings import specs_folder
from opdb.execute.libraries.client import VendorWorker
from opdb.judge.samples import encoded, resized, sample_config, with_outputs
from opdb.judge.validate import check
from opdb.measure.conformance import data
from opdb.runtime.kernels import run_graph
from opdb.runtime.native import KernelError
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

#: Around the widths of vectors (128 bytes), and small.
SIZES = (
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    16,
    17,
    31,
    32,
    33,
    48,
    63,
    64,
    65,
    96,
    100,
    127,
    128,
    129,
    200,
    255,
    256,
    257,
    300,
)
MOST = 200_000  # elements of the inputs, or of the outputs
TOLERANCE = {"f16": 1e-2, "f32": 1e-2, "bf16": 5e-2, "uq8": 3.01, "sq8": 3.01, "uq16": 200, "sq16": 200}
#: Types that a product by a half may make.
BEHIND = ("f16", "f32", "uq8", "uq16")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--configs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("ops", nargs="*", metavar="OP")
    asked = parser.parse_args()
    catalog = read_catalog(specs_folder())
    if unknown := set(asked.ops) - set(catalog.ops):
        parser.error(f"no op of the catalog: {', '.join(sorted(unknown))}")
    ops = candidates(catalog, asked.ops)
    rng, target = random.Random(asked.seed), Target("HTP", asked.soc, execution="emulator")
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    with VendorWorker("HTP", asked.soc) as worker:
        for _ in range(asked.configs):
            op = rng.choice(ops)
            config = drawn(op, rng)
            if config is None or check(config, target).violations:
                continue
            said = verdict(config, rng, worker)
            counts[op.name][said.partition(":")[0]] += 1
            if not said.startswith(("right", "no kernel")):
                print(f"{shown(config)}: {said}", flush=True)
    for name, found in sorted(counts.items()):
        if set(found) - {"right", "no kernel"}:
            print(f"{name}: {', '.join(f'{n} {said}' for said, n in found.most_common())}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(", ".join(f"{n} {said}" for said, n in total.most_common()))


def candidates(catalog: Catalog, names: list[str]) -> list[CompiledOp]:
    ops = [catalog.compiled(name) for name in names or sorted(catalog.ops)]
    return [op for op in ops if op.type_rows.get("HTP") and op.definition.samples]


def drawn(op: CompiledOp, rng: random.Random) -> OpConfig | None:
    """A sample in the types of a row, with up to three sizes changed; None if that makes no config."""
    cells = rng.choice(op.type_rows["HTP"]).cells
    dtypes = {s.name: rng.choice(cells.get(s.name) or ("f32",)) for s in (*op.inputs, *op.outputs)}
    try:
        config = sample_config(op, rng.randrange(len(op.definition.samples)), dtypes)
    except OpdbError:
        return None
    for _ in range(rng.randint(0, 3)):
        sizes = sorted({d for t in config.inputs for d in t.shape})
        if not sizes:
            break
        old, new = rng.choice(sizes), rng.choice(SIZES)
        other = with_outputs(with_size(config, old, new), op, dtypes)
        if other is not None and max(elements(other.inputs), elements(other.outputs)) <= MOST:
            config = other
    return encoded(op, config) if 0 < elements(config.outputs) <= MOST else None


def with_size(config: OpConfig, old: int, new: int) -> OpConfig:
    inputs = (resized(t, tuple(new if d == old else d for d in t.shape)) for t in config.inputs)
    return replace(config, inputs=tuple(inputs))


def elements(tensors: Any) -> int:
    return sum(math.prod(t.shape) for t in tensors)


def verdict(config: OpConfig, rng: random.Random, worker: VendorWorker) -> str:
    half = any(t.dtype in ("f16", "f32") for t in config.inputs)
    inputs = data.inputs(str(rng.random()), config, half)
    graph = single(config, inputs)
    given = {t.name: inputs[int(t.name)] for t in graph.inputs}
    try:
        wanted = run_graph(graph, given)
    except KernelError:
        return "no kernel"
    behind = rng.random() < 0.5 and behind_a_product(graph, given)
    result = worker.run(graph, given)
    place = " behind a product" if behind else ""
    if result.verdict != "yes":
        return f"{result.verdict}{place}: {result.stage} {result.code_name}"
    worst = max(difference(wanted[n], result.outputs[n], graph.tensors[n].dtype) for n in wanted)
    return "right" if worst <= 1 else f"wrong{place}: {worst:.1f} times the tolerance"


def behind_a_product(graph: QnnGraph, given: dict[str, Any]) -> bool:
    """Makes a product by a half produce the first input, with the same values, if its type allows it."""
    x = graph.tensors.get("0")
    if x is None or x.type != "APP_WRITE" or x.dtype not in BEHIND:
        return False
    if x.quant is not None and x.quant.encoding != "SCALE_OFFSET":
        return False
    kind = BY_SHORT[x.dtype].numpy
    quant = replace(x.quant, scale=(x.quant.scale[0] * 2,)) if x.quant else None
    graph.tensors["0"] = replace(x, type="NATIVE")
    graph.tensors["twice"] = GraphTensor("twice", x.dtype, x.shape, "APP_WRITE", None, quant)
    factor = np.array([1 if quant else 0.5], kind)
    step = Quant("SCALE_OFFSET", (0.5,), (0,)) if quant else None
    graph.tensors["half"] = GraphTensor("half", x.dtype, (1,), "STATIC", factor, step)
    graph.ops.insert(0, GraphOp("product", "ElementWiseMultiply", ("twice", "half"), (), ("0",)))
    values = given.pop("0")
    given["twice"] = values if quant else values * np.array(2, values.dtype)
    return True


def difference(wanted: Any, got: Any, dtype: str) -> float:
    """The largest difference, in tolerances; wanted NaNs and infinities are not compared."""
    a, b = wanted.astype(np.float64), got.astype(np.float64)
    kept = np.isfinite(a)
    if not kept.any():
        return 0.0
    off = float(np.abs(np.where(np.isfinite(b), b, np.inf)[kept] - a[kept]).max())
    if dtype in ("f16", "f32", "bf16"):
        off /= max(float(np.abs(a[kept]).max()), 1e-3)
    return off / TOLERANCE.get(dtype, 0.5)


def shown(config: OpConfig) -> str:
    tensors = ", ".join(f"{t.dtype}{list(t.shape)}{' static' * (t.type == 'STATIC')}" for t in config.inputs)
    params = ", ".join(
        f"{p.name} = {p.value if np.ndim(p.value) == 0 else list(p.value)}" for p in config.params
    )
    return f"{config.op} {tensors}" + (f"; {params}" if params else "")


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
