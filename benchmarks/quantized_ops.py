"""Random quantized ops whose inputs and results have unlike encodings: the vendor's emulation against PyTorch.

    python benchmarks/quantized_ops.py [--configs 2000] [--soc SOC] [--seed N] [--op OP] [--out FILE.json]

For each recipe (8a8w: uq8, 16a8w: uq16) configs are drawn from the samples of all QNN ops that have a type row of these activations;
each quantized tensor that is not a weight gets its own encoding, and the result one that fits the values that PyTorch computes, widened
or narrowed by up to a third, or the one that the spec fixes.  Tensors that the spec's ``share`` joins get one encoding, and tensors whose
stored numbers the op reads unscaled (``stored``) get scale 1.  A config that a rule or an avoided erratum refuses is drawn again.  The
library's results may be as far from PyTorch's as conformance allows (opdb.measure.conformance.tolerance), or EIGHT steps of
8 bits; of 16 bits two steps and SIXTEEN of the widest range of the op's tensors.  The operands of comparisons have one
encoding: numbers less than a step apart may be taken for equal.

Findings are printed, and written as JSON.  A finding whose config has an erratum that is avoided only if another form remains is *known*;
all others are *new*.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.codegen.constants import PACKAGE
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, Quant, TensorConfig, to_json
from opdb.core.settings import specs_folder
from opdb.execute.compile.model import config_graph
from opdb.execute.libraries.client import VendorWorker
from opdb.generated.constants.quant import RULES
from opdb.judge.errata.policy import refuses
from opdb.judge.samples import slot_of
from opdb.judge.validate import check
from opdb.lower.quantize.encodings import Range, encoding
from opdb.measure.conformance import data
from opdb.measure.conformance.cases import Case, row_cases
from opdb.measure.conformance.data import COMPARISONS, function_of
from opdb.measure.conformance.lanes import pytorch
from opdb.measure.conformance.tolerance import bounds, compare
from opdb.spec.catalog import Catalog

RECIPES = {"8a8w": "uq8", "16a8w": "uq16"}
#: Draws for one config before it is given up.
TRIES = 12
#: Ops whose results the documents do not define: the rows after the last box that NonMaxSuppression selects.
UNSETTLED = ("NonMaxSuppression",)
#: Steps of the result in 8 bits: two for its rounding and the multiplier, the rest for the rounding of operands with unlike scales.
EIGHT = 2.5
#: Part of the widest range of an op's 16-bit tensors: HTP computes their functions about as precisely as in half precision.
SIXTEEN = 2.0**-11


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--configs", type=int, default=2000)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--op", action="append")
    parser.add_argument("--recipe", action="append")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    catalog = read_catalog(specs_folder(None))
    found = []
    for recipe in args.recipe or RECIPES:
        found += list(_recipe(catalog, recipe, args))
    if args.out:
        args.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def _recipe(catalog: Catalog, recipe: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(args.seed)
    target = Target("HTP", args.soc, execution="emulator")
    cases = by_op(catalog, RECIPES[recipe], args.soc, args.op)
    names = sorted(cases)
    seen: Counter[str] = Counter()
    with VendorWorker("HTP", args.soc, timeout=60) as worker:
        for number in range(args.configs):
            of_op = cases[names[number % len(names)]]
            drawn = _drawn(
                of_op[int(rng.integers(len(of_op)))], rng, target, f"{recipe}/{args.seed}/{number}"
            )
            if drawn is None:
                seen["not drawn"] += 1
                continue
            why = _computed(catalog, worker, drawn)
            known = _errata(drawn.config, target) if why else ()
            seen[("known" if known else "new") if why else "right"] += 1
            if why:
                print(f"{recipe} {number} {drawn.config.op}: {why} {' '.join(known)}", flush=True)
                told = {"recipe": recipe, "soc": args.soc, "why": why, "known": known, "data": drawn.ident}
                yield told | {"config": to_json(drawn.config)}
    print(f"{recipe} on {args.soc}: {len(names)} ops, {dict(seen)}", flush=True)


def by_op(catalog: Catalog, dtype: str, soc: str, ops: list[str] | None) -> Mapping[str, list[Case]]:
    """The cases of each op that run and whose activations have the type."""
    found: dict[str, list[Case]] = {}
    for op in ops or _own(catalog):
        for case in row_cases(catalog, op, "HTP", soc):
            tensors = (*case.config.inputs[:1], *case.config.outputs[:1])
            if case.runs and dtype in {t.dtype for t in tensors}:
                found.setdefault(op, []).append(case)
    return found


def _own(catalog: Catalog) -> list[str]:
    """QNN's own ops."""
    return sorted(o for o, spec in catalog.ops.items() if spec.package == PACKAGE and o not in UNSETTLED)


@dataclass(frozen=True)
class Drawn:
    """An op config, its data (generated from ``ident``), and PyTorch's results."""

    config: OpConfig
    ident: str
    arrays: list[Any]
    expected: list[Any]


def _drawn(case: Case, rng: np.random.Generator, target: Target, ident: str) -> Drawn | None:
    """The config of ``case`` with random encodings that nothing refuses; None if all were refused."""
    for attempt in range(TRIES):
        config = _sharing(replace(case.config, inputs=tuple(_encoded(t, rng) for t in case.config.inputs)))
        arrays = data.inputs(f"{ident}/{attempt}", config, half=True)
        expected = _expected(config, arrays)
        if expected is None:
            return None
        outputs = [_fitted(config, t, e, rng) for t, e in zip(config.outputs, expected, strict=False)]
        made = _sharing(replace(config, outputs=tuple(outputs)))
        if _taken(made, target):
            of_made = _expected(
                made, arrays
            )  # an op that writes stored numbers: the encoding defines their values
            return None if of_made is None else Drawn(made, f"{ident}/{attempt}", arrays, of_made)
    return None


def _expected(config: OpConfig, arrays: list[Any]) -> list[Any] | None:
    try:
        found = pytorch(config, arrays)
    except (OpdbError, RuntimeError, TypeError):
        return None
    if isinstance(found, str) or not all(np.isfinite(a).all() for a in found):
        return None  # no oracle, or rounded outside the function's domain
    return found


def _sharing(config: OpConfig) -> OpConfig:
    """Uses one encoding for the slots that the spec's ``share`` joins, and scale 1 for ``stored``: opdb makes no other graphs (see
    in_steps_of_x).
    """
    rules = RULES[config.op]
    compared = function_of(config) in COMPARISONS
    shared = [slot_of(t) for t in config.inputs] if compared else rules.shared
    first = next((t.quant for t in config.inputs if slot_of(t) in shared and t.quant is not None), None)

    def ruled(t: TensorConfig) -> TensorConfig:
        if slot_of(t) in rules.stored and _random(t):
            return replace(t, quant=Quant("SCALE_OFFSET", (1.0,), (0,)))
        joined = slot_of(t) in shared and t.quant is not None and first is not None
        return replace(t, quant=first) if joined else t

    return replace(config, inputs=tuple(map(ruled, config.inputs)), outputs=tuple(map(ruled, config.outputs)))


def _taken(config: OpConfig, target: Target) -> bool:
    verdict = check(config, target)
    faults = [v for v in verdict.violations if not v.erratum or refuses(v.erratum, target)]
    return verdict.verdict == "accept" and not faults


def _errata(config: OpConfig, target: Target) -> tuple[str, ...]:
    """The errata of the config on the target."""
    return tuple(v.erratum for v in check(config, target).violations if v.erratum)


def _random(t: TensorConfig) -> bool:
    return (
        t.quant is not None
        and t.quant.encoding == "SCALE_OFFSET"
        and BY_SHORT[t.dtype].bits in (8, 16)
        and t.type != "STATIC"
    )


def _encoded(t: TensorConfig, rng: np.random.Generator) -> TensorConfig:
    """Changes an activation's encoding: a span of a quarter to four times its own, with zero anywhere but at the ends."""
    if not _random(t) or t.quant is None:
        return t
    steps = 2 ** BY_SHORT[t.dtype].bits
    scale = float(np.float32(t.quant.scale[0] * 2 ** rng.uniform(-2, 1)))
    middle = 0 if BY_SHORT[t.dtype].qnn.startswith("S") else -steps // 2
    return replace(
        t, quant=Quant("SCALE_OFFSET", (scale,), (middle + int(rng.integers(-steps // 4, steps // 4)),))
    )


def _fitted(config: OpConfig, t: TensorConfig, values: Any, rng: np.random.Generator) -> TensorConfig:
    """The encoding of PyTorch's results, up to a third wider or narrower; or the encoding that the spec's ``range`` fixes."""
    rule = RULES[config.op].rule(slot_of(t), {p.name: p.value for p in config.params})
    if rule.range is not None and _random(t):
        return replace(t, quant=encoding(Range(*rule.range, rule.steps), t.dtype, rule.symmetric))
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not _random(t) or not finite.size or not np.ptp(finite):
        return t
    span = Range.of(finite)
    low, high = span.low * rng.uniform(0.75, 1.33), span.high * rng.uniform(0.75, 1.33)
    return replace(t, quant=encoding(Range(low, high), t.dtype, False))


def _computed(catalog: Catalog, worker: VendorWorker, drawn: Drawn) -> str:
    """Returns the error of the library's result; "" if it is right."""
    config = drawn.config
    held = [
        replace(t, data=a) if t.type == "STATIC" and a is not None else t
        for t, a in zip(config.inputs, drawn.arrays, strict=True)
    ]
    graph = config_graph(replace(config, inputs=tuple(held)), "g")
    names = [t.name or f"in{i}" for i, t in enumerate(config.inputs)]
    ends = {t.name for t in graph.inputs}
    given = {n: a for n, a in zip(names, drawn.arrays, strict=True) if n in ends}
    said = worker.run(graph, given)
    if said.verdict != "yes":
        return f"{said.stage}: {said.verdict} {said.code_name}"
    got = [said.outputs[t.name] for t in graph.outputs]
    compared = compare(config, drawn.expected, got, bounds(catalog, config), half=True)
    near = compared.error_max <= _room(config)
    return "" if compared.matches or near else f"{compared.ulp:.0f} steps; {compared.detail}"


def _room(config: OpConfig) -> float:
    """The tolerance, in real units, beyond what conformance allows: 0 if an output is not quantized."""
    if any(t.quant is None or t.quant.encoding != "SCALE_OFFSET" for t in config.outputs):
        return 0.0
    step = min(t.quant.scale[0] for t in config.outputs if t.quant is not None)
    if all(BY_SHORT[t.dtype].bits == 8 for t in config.outputs):
        return EIGHT * step
    wide = [t for t in (*config.inputs, *config.outputs) if _random(t) and BY_SHORT[t.dtype].bits == 16]
    return 2 * step + SIXTEEN * max(
        (2**16 * t.quant.scale[0] for t in wide if t.quant is not None), default=0.0
    )


if __name__ == "__main__":
    sys.exit(main())
