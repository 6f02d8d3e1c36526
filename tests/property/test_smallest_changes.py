"""``opdb.judge.nearest``: its variant is accepted, matches its listed changes, and no smaller change would do.

Smaller changes are searched here by brute force: every data type in every tensor, every integer near a
parameter, each parameter omitted, the inferred shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from configs import Maker, infer
from hypothesis import given, settings
from hypothesis import strategies as st

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import DTYPES
from opdb.core.op_config import OpConfig, from_json, to_json
from opdb.generated import validators
from opdb.judge.nearest import Variant, nearest
from opdb.judge.validate import check
from opdb.runtime.checks import Undecidable
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp

pytestmark = pytest.mark.slow

TARGETS = (Target(), Target("CPU"), Target("HTP", "SM8650", "2.47"), Target("HTP", "SM8350", "2.47"))
OPS = sorted(validators.MODULES)
WHOLE = re.compile(r"(inputs|outputs)\[\d+\]")


def accepted(config: OpConfig, target: Target) -> bool:
    return check(config, target).verdict == "accept"


def damaged(op: CompiledOp, seed: int, times: int) -> OpConfig:
    maker = Maker(op, Random(f"{op.name} {seed}"))
    config = maker.valid()
    for _ in range(times):
        config = maker.damaged(config)
    return config


def applied(config: OpConfig, variant: Variant) -> Any:
    """The JSON of ``config`` with each change made at its path."""
    document = to_json(config)
    for change in variant.changes:
        steps: list[Any] = [int(s) if s.isdigit() else s for s in re.findall(r"\w+", change.path)]
        *way, last = steps
        place = document
        for step in way:
            place = place[step]
        assert place.get(last) == change.before
        place[last] = change.after
        if change.after is None:
            del place[last]
    return document


def singles(config: OpConfig) -> Iterator[OpConfig]:
    """Configs with one data type, one parameter or the output shapes changed.

    A quantized type has an encoding: no variant is proposed that a backend would accept without one.
    """
    for group in ("inputs", "outputs"):
        tensors = getattr(config, group)
        for i, t in enumerate(tensors):
            if t.type != "NULL":
                for dtype in DTYPES:
                    for quant in {t.quant} if dtype.quantized else {t.quant, None}:
                        new = replace(t, dtype=dtype.short, quant=quant)
                        yield replace(config, **{group: (*tensors[:i], new, *tensors[i + 1 :])})
    for i, p in enumerate(config.params):
        rest = (*config.params[:i], *config.params[i + 1 :])
        yield replace(config, params=rest)
        if p.shape is None and isinstance(p.value, (bool, int)):
            values = (
                [not p.value] if isinstance(p.value, bool) else [*range(40), *range(p.value - 9, p.value)]
            )
            for n in values:
                if n >= 0 or p.dtype.startswith("i"):
                    yield replace(
                        config, params=(*config.params[:i], replace(p, value=n), *config.params[i + 1 :])
                    )
    try:
        shapes = infer(config)
    except Undecidable:
        return
    if all(s and not isinstance(s[0], list) for s in shapes.values()) and len(shapes) == len(config.outputs):
        outputs = tuple(
            replace(t, shape=tuple(s)) for t, s in zip(config.outputs, shapes.values(), strict=True)
        )
        if sum(a != b for a, b in zip(outputs, config.outputs, strict=True)) == 1:
            yield replace(config, outputs=outputs)


def entries(variant: Variant) -> int:
    """Number of changed tensors and parameters."""
    return len({re.sub(r"\.(?:dtype|shape|type|quant|value|data)$", "", c.path) for c in variant.changes})


@pytest.mark.slow_by_op
@pytest.mark.parametrize("op", OPS)
def test_the_nearest_variant_is_accepted(catalog: Catalog, op: str) -> None:
    compiled = catalog.compiled(op)

    @settings(max_examples=30)
    @given(seed=st.integers(0, 10**6), times=st.integers(1, 3), target=st.sampled_from(TARGETS))
    def judge(seed: int, times: int, target: Target) -> None:
        is_accepted(damaged(compiled, seed, times), target)

    judge()


def is_accepted(config: OpConfig, target: Target) -> None:
    variant = nearest(config, target)
    if accepted(config, target):
        assert variant is None
    if variant is None:
        return
    assert accepted(variant.config, target)
    assert variant.changes
    assert nearest(config, target) == variant
    whole = [c for c in variant.changes if WHOLE.fullmatch(c.path)]
    for change in whole:  # a tensor more, with its place in the variant, or one less, with its place before
        group, place = re.findall(r"\w+", change.path)
        of = config if change.after is None else variant.config
        assert to_json(of)[group][int(place)] == (change.before or change.after)
    if len({p.name for p in config.params}) == len(config.params) and not whole:
        made = from_json(applied(config, variant))
        assert replace(made, params=()) == replace(variant.config, params=())
        assert {p.name: p for p in made.params} == {p.name: p for p in variant.config.params}


@pytest.mark.slow_by_op
@pytest.mark.parametrize("op", OPS)
def test_no_single_change_is_smaller(catalog: Catalog, op: str) -> None:
    compiled = catalog.compiled(op)

    @settings(max_examples=15)
    @given(seed=st.integers(0, 10**6), times=st.integers(1, 2), target=st.sampled_from(TARGETS))
    def judge(seed: int, times: int, target: Target) -> None:
        is_minimal(damaged(compiled, seed, times), target)

    judge()


def is_minimal(config: OpConfig, target: Target) -> None:
    op = config.op
    if target.backend not in (None, *validators.module(op).DOCUMENTED) or accepted(config, target):  # type: ignore[union-attr]
        return
    variant = nearest(config, target)
    if variant is not None and entries(variant) == 1:
        return
    better = next((c for c in singles(config) if accepted(c, target)), None)
    assert better is None, (variant and variant.text, to_json(config), to_json(better))


SCALARS = {
    "Concat": "axis",
    "Softmax": "axis",
    "Conv2d": "group",
    "Split": "axis",
    "ElementWiseBinary": "operation",
}


@pytest.mark.slow_by_op
@pytest.mark.parametrize("op", SCALARS)
def test_the_nearest_right_integer_is_chosen(catalog: Catalog, op: str) -> None:
    """The variant has the nearest right value if only a scalar is wrong."""
    name, compiled = SCALARS[op], catalog.compiled(op)

    @settings(max_examples=20)
    @given(
        seed=st.integers(0, 10**6),
        wrong=st.integers(0, 300) | st.sampled_from([2**31, 2**32 - 1]),
        target=st.sampled_from(TARGETS),
    )
    def judge(seed: int, wrong: int, target: Target) -> None:
        config = damaged(compiled, seed, 0)

        def having(n: int) -> OpConfig:
            return replace(
                config, params=tuple(replace(p, value=n) if p.name == name else p for p in config.params)
            )

        if having(1) == having(2) or not accepted(config, target) or accepted(having(wrong), target):
            return
        variant = nearest(having(wrong), target)
        assert variant is not None
        assert entries(variant) == 1
        change = variant.changes[0]
        if change.path == f"params.{name}.value":
            good = [n for n in range(600) if accepted(having(n), target)]
            assert abs(change.after - wrong) == min(abs(n - wrong) for n in good)

    judge()
