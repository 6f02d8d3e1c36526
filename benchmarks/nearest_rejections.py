"""Prints the proposals of ``opdb.judge.nearest`` for random rejections, to be read by a person.

    python benchmarks/nearest_rejections.py --backend HTP --soc SM8650 --count 200 --show 30

Accepted op configs are made from the samples of the specs, then one field is changed at random (the rank of the data,
a data type, a parameter, an encoding, the shape of an output) until the target rejects.  For each one a line has the
rules that it breaks and the proposal; the last line counts the kinds of proposals.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from opdb.catalog.store import read_catalog
from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.op_config import OpConfig, ParamConfig, TensorConfig, centered
from opdb.generated import validators
from opdb.judge.nearest import Variant, nearest
from opdb.judge.nearest.changes import other_data
from opdb.judge.samples import sample_config
from opdb.judge.validate import check
from opdb.spec.definitions import expand_row

TYPES = ("f32", "f16", "i32", "uq8", "sq8", "uq16", "bool8", "i64")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="HTP")
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--show", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    target = Target(given.backend, given.soc or None)
    kinds: Counter[str] = Counter()
    for number, config in enumerate(rejections(target, given.count, random.Random(given.seed))):
        found = nearest(config, target)
        kinds[kind(found)] += 1
        if number % max(given.count // given.show, 1) == 0:
            print(f"{number}: {described(config)}")
            for v in check(config, target).violations:
                print(f"    {v.brief} ({v.rule})")
            print(f"    -> {found.text if found else 'nothing'}")
    print(", ".join(f"{n} {what}" for what, n in kinds.most_common()))


def kind(found: Variant | None) -> str:
    if found is None:
        return "nothing"
    if found.advice:
        return "in words"
    if other_data(found.changes):
        return "reshaped"
    return " and ".join(
        sorted({c.path.rpartition(".")[2] if "." in c.path else "tensor" for c in found.changes})
    )


def described(config: OpConfig) -> str:
    tensors = [f"{t.dtype}{list(t.shape)}" for t in config.inputs]
    params = [f"{p.name}={p.value}" for p in config.params]
    return f"{config.op} {' '.join(tensors)} -> {' '.join(f'{t.dtype}{list(t.shape)}' for t in config.outputs)} {' '.join(params)}"


def rejections(target: Target, count: int, rng: random.Random) -> Iterator[OpConfig]:
    catalog = read_catalog(Path(__file__).parent.parent / "specs")
    ops = [op for op in sorted(catalog.ops) if op in validators.MODULES]
    made = 0
    while made < count:
        compiled = catalog.compiled(rng.choice(ops))
        rows = compiled.type_rows.get(target.backend or "", ())
        if not rows or not compiled.definition.samples:
            continue
        sample = rng.randrange(len(compiled.definition.samples))
        try:
            config = changed(sample_config(compiled, sample, expand_row(rng.choice(rows))[0]), rng)
        except OpdbError:  # a sample whose outputs cannot be inferred
            continue
        if check(config, target).verdict == "reject":
            made += 1
            yield config


def changed(config: OpConfig, rng: random.Random) -> OpConfig:
    """Returns ``config`` with one random change."""
    which = rng.choice(("rank", "rank", "type", "types", "param", "output"))
    if which == "rank":
        ones = tuple(rng.choice((1, 2, 3)) for _ in range(rng.randint(1, 3)))
        wide = tuple(replace(t, shape=(*ones, *t.shape)) for t in config.inputs[:1]) + config.inputs[1:]
        return replace(
            config, inputs=wide, outputs=tuple(replace(t, shape=(*ones, *t.shape)) for t in config.outputs)
        )
    if which == "type":
        i = rng.randrange(len(config.inputs)) if config.inputs else 0
        dtype = rng.choice(TYPES)
        return replace(
            config, inputs=tuple(_typed(t, dtype) if k == i else t for k, t in enumerate(config.inputs))
        )
    if which == "types":
        dtype = rng.choice(TYPES)
        return replace(
            config,
            inputs=tuple(_typed(t, dtype) for t in config.inputs),
            outputs=tuple(_typed(t, dtype) for t in config.outputs),
        )
    if which == "param" and config.params:
        i = rng.randrange(len(config.params))
        return replace(
            config, params=tuple(_other(p, rng) if k == i else p for k, p in enumerate(config.params))
        )
    return replace(config, outputs=tuple(replace(t, shape=(*t.shape[:-1], 7)) for t in config.outputs))


def _typed(tensor: TensorConfig, dtype: str) -> TensorConfig:
    return tensor if tensor.type == "NULL" else replace(tensor, dtype=dtype, quant=centered(dtype))


def _other(param: ParamConfig, rng: random.Random) -> ParamConfig:
    value = param.value
    if isinstance(value, tuple):
        at = rng.randrange(len(value)) if value else 0
        new: Any = tuple(
            v + rng.choice((1, 3, -1)) if k == at and not isinstance(v, bool) else v
            for k, v in enumerate(value)
        )
    elif isinstance(value, bool):
        new = not value
    else:
        new = value + rng.choice((1, 5, -1))
    return replace(param, value=new)


if __name__ == "__main__":
    main()
