"""Random quantized ops whose inputs and results have unlike encodings: the vendor's emulation against PyTorch.

    python benchmarks/quantized_ops.py [--configs 2000] [--soc SOC] [--seed N] [--op OP] [--out FILE.json]

For each recipe (8a8w: uq8, 16a8w: uq16) configs are drawn from the samples of all ops that have a type row of such activations; each
quantized tensor that is no weight gets an encoding of its own, and the result one that fits the values that PyTorch computes, widened or
narrowed by up to a third; tensors that the spec's ``share`` joins get one.  A config that a rule or an erratum to be avoided
refuses is drawn again.  What the library computes may be as far from PyTorch as conformance allows (opdb.conformance.tolerance).
Findings are printed, and written as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from opdb.compile.model import config_graph
from opdb.conformance import data
from opdb.conformance.cases import Case, row_cases
from opdb.conformance.lanes import pytorch
from opdb.conformance.tolerance import bounds, compare
from opdb.dtypes import BY_SHORT
from opdb.errata.policy import refuses
from opdb.errors import OpdbError
from opdb.generated.constants.quant import RULES
from opdb.op_config import OpConfig, Quant, TensorConfig, to_json
from opdb.probe.client import VendorWorker
from opdb.quantize.encodings import Range, encoding
from opdb.samples import slot_of
from opdb.settings import specs_folder
from opdb.spec.catalog import Catalog
from opdb.store import read_catalog
from opdb.targets.target import Target
from opdb.validate import check

RECIPES = {"8a8w": "uq8", "16a8w": "uq16"}
#: Draws for one config before it is given up.
TRIES = 12


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
            case = cases[names[number % len(names)]][
                int(rng.integers(len(cases[names[number % len(names)]])))
            ]
            drawn = _drawn(case, rng, target, f"{recipe}/{args.seed}/{number}")
            if drawn is None:
                seen["not drawn"] += 1
                continue
            config, arrays, expected = drawn
            why = _computed(catalog, worker, config, arrays, expected)
            seen["wrong" if why else "right"] += 1
            if why:
                print(f"{recipe} {number} {config.op}: {why}", flush=True)
                yield {"recipe": recipe, "soc": args.soc, "why": why, "config": to_json(config)}
    print(f"{recipe} on {args.soc}: {len(names)} ops, {dict(seen)}", flush=True)


def by_op(catalog: Catalog, dtype: str, soc: str, ops: list[str] | None) -> Mapping[str, list[Case]]:
    """The cases of each op that run, and whose activations have the type."""
    found: dict[str, list[Case]] = {}
    for op in ops or sorted(catalog.ops):
        for case in row_cases(catalog, op, "HTP", soc):
            tensors = (*case.config.inputs[:1], *case.config.outputs[:1])
            if case.runs and dtype in {t.dtype for t in tensors}:
                found.setdefault(op, []).append(case)
    return found


def _drawn(
    case: Case, rng: np.random.Generator, target: Target, ident: str
) -> tuple[OpConfig, list[Any], list[Any]] | None:
    """The config with random encodings that nothing refuses, its data, and what PyTorch computes; None where all were refused."""
    for attempt in range(TRIES):
        config = _sharing(replace(case.config, inputs=tuple(_encoded(t, rng) for t in case.config.inputs)))
        arrays = data.inputs(f"{ident}/{attempt}", config)
        try:
            expected = pytorch(config, arrays)
        except (OpdbError, RuntimeError, TypeError):
            return None
        if isinstance(expected, str):
            return None
        outputs = [_fitted(t, e, rng) for t, e in zip(config.outputs, expected, strict=False)]
        made = _sharing(replace(config, outputs=tuple(outputs)))
        if _taken(made, target):
            return made, arrays, expected
    return None


def _sharing(config: OpConfig) -> OpConfig:
    """With one encoding for the slots that the spec's ``share`` joins: what opdb makes has no other there (see in_steps_of_x)."""
    shared = RULES[config.op].shared
    first = next((t.quant for t in config.inputs if slot_of(t) in shared and t.quant is not None), None)
    if first is None:
        return config

    def joined(t: TensorConfig) -> TensorConfig:
        return replace(t, quant=first) if slot_of(t) in shared and t.quant is not None else t

    return replace(
        config, inputs=tuple(map(joined, config.inputs)), outputs=tuple(map(joined, config.outputs))
    )


def _taken(config: OpConfig, target: Target) -> bool:
    verdict = check(config, target)
    faults = [v for v in verdict.violations if not v.erratum or refuses(v.erratum, target)]
    return verdict.verdict == "accept" and not faults


def _random(t: TensorConfig) -> bool:
    return (
        t.quant is not None
        and t.quant.encoding == "SCALE_OFFSET"
        and BY_SHORT[t.dtype].bits in (8, 16)
        and t.type != "STATIC"
    )


def _encoded(t: TensorConfig, rng: np.random.Generator) -> TensorConfig:
    """Another encoding for an activation: a span of a quarter to four times its own, with zero anywhere but at the ends."""
    if not _random(t) or t.quant is None:
        return t
    steps = 2 ** BY_SHORT[t.dtype].bits
    scale = float(np.float32(t.quant.scale[0] * 2 ** rng.uniform(-2, 1)))
    middle = 0 if BY_SHORT[t.dtype].qnn.startswith("S") else -steps // 2
    return replace(
        t, quant=Quant("SCALE_OFFSET", (scale,), (middle + int(rng.integers(-steps // 4, steps // 4)),))
    )


def _fitted(t: TensorConfig, values: Any, rng: np.random.Generator) -> TensorConfig:
    """The encoding of what PyTorch computes, up to a third wider or narrower."""
    finite = np.asarray(values, np.float64)
    finite = finite[np.isfinite(finite)]
    if not _random(t) or not finite.size or not np.ptp(finite):
        return t
    span = Range.of(finite)
    low, high = span.low * rng.uniform(0.75, 1.33), span.high * rng.uniform(0.75, 1.33)
    return replace(t, quant=encoding(Range(low, high), t.dtype, False))


def _computed(catalog: Catalog, worker: VendorWorker, config: OpConfig, arrays: Any, expected: Any) -> str:
    """What is wrong with the library's answer; "" for nothing."""
    held = [
        replace(t, data=a) if t.type == "STATIC" and a is not None else t
        for t, a in zip(config.inputs, arrays, strict=True)
    ]
    graph = config_graph(replace(config, inputs=tuple(held)), "g")
    names = [t.name or f"in{i}" for i, t in enumerate(config.inputs)]
    given = {n: a for n, a in zip(names, arrays, strict=True) if n in {t.name for t in graph.inputs}}
    said = worker.run(graph, given)
    if said.verdict != "yes":
        return f"{said.stage}: {said.verdict} {said.code_name}"
    got = [said.outputs[t.name] for t in graph.outputs]
    compared = compare(config, expected, got, bounds(catalog, config))
    return "" if compared.matches else f"{compared.ulp:.0f} steps; {compared.detail}"


if __name__ == "__main__":
    sys.exit(main())
