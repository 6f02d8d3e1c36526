"""Plans the quantized form of a float graph: ranges, types, and the form of each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT, lookup
from opdb.core.errors import OpdbError
from opdb.core.graph import QnnGraph
from opdb.lower.quantize.choose import Form, NoForm, Wishes, choose, fits, known
from opdb.lower.quantize.clamps import by_limits
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.in_floats import REAL
from opdb.lower.quantize.linears import for_narrow_weights
from opdb.lower.quantize.masks import Clipped, clipped, finite
from opdb.lower.quantize.observe import Kept, Run, observe
from opdb.lower.quantize.observers import BY_ENDS, Observation
from opdb.lower.quantize.propagate import Groups, fixed_range
from opdb.lower.quantize.recipe import Recipe, named
from opdb.lower.quantize.recipe_types import Asked, Source, asked
from opdb.lower.quantize.repeats import of_fewer_dimensions
from opdb.lower.quantize.slots import places
from opdb.lower.quantize.taps import with_zeros
from opdb.runtime.kernels import run_graph


def forms_of(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    *,
    target: Target,
    recipe: Recipe | Asked | str = "8a8w",
    sources: Mapping[str, Source] | None = None,
    run: Run = run_graph,
) -> Plan:
    """Plans each op as ``opdb.lower.quantize.quantize`` does; the plan has the reasons of the ops without a form."""
    return planned(graph, calibration, target, recipe, sources or {}, {}, 0.0, run, ())


@dataclass(frozen=True)
class Plan:
    """``forms`` and ``refused``: by node name.  ``wanted``, ``seen`` and ``ranges``: by tensor."""

    graph: QnnGraph
    target: Target
    asked: Asked
    groups: Groups
    wanted: Mapping[str, str]
    seen: Mapping[str, Range]
    ranges: Mapping[str, Range]
    cut_off: list[Clipped]
    forms: dict[str, Form]
    refused: dict[str, NoForm]


def planned(
    graph: QnnGraph,
    calibration: Iterable[Mapping[str, Any]],
    target: Target,
    recipe: Recipe | Asked | str,
    sources: Mapping[str, Source],
    overrides: Mapping[str, str],
    margin: float,
    run: Run,
    states: Sequence[Kept],
) -> Plan:
    """Plans the ranges of the tensors and the form of each op; see ``opdb.lower.quantize.quantize``."""
    target = target.spelled()
    graph = of_fewer_dimensions(finite(graph))
    wish = recipe if isinstance(recipe, Asked) else _asked(recipe, graph, sources)
    graph = for_narrow_weights(graph, wish)
    for dtype in (wish.activations, wish.weights.dtype, *overrides.values()):
        kind = lookup(dtype)
        if kind is None or kind.short != dtype or not kind.quantized or kind.numpy is None:
            raise OpdbError(f"'{dtype}' is not a type to quantize to; e.g. uq8, uq16, sq8")
    groups = _grouped(graph, states)
    wanted = _wanted(graph, groups, wish, overrides)
    for op in graph.ops:
        known(op)
    if not 0 <= margin < np.inf:
        raise OpdbError(f"margin: {margin} is not a share of a range; e.g. 0.1")
    floors: dict[str, float] = {}

    def watched(name: str) -> tuple[Observation, str]:
        how = wish.observed.get(name, wish.observation)
        return (how, wanted[name]) if name in wanted else (BY_ENDS, "")

    found = observe(graph, calibration, run, states, floors, watched)
    seen, cut_off = clipped(graph, groups, {n: r.widened(margin) for n, r in found.items()}, floors)
    ranges = _shared_ranges(graph, groups, wanted, seen)
    wishes = Wishes(wanted, ranges, wish.weights, target, wish.weights_of, wish.floats)
    whole, seen = by_limits(graph, seen, ranges, target, partial(fits, graph, wishes))
    whole, seen = with_zeros(whole, seen, target, partial(fits, graph, wishes))
    if len(whole.tensors) > len(graph.tensors):
        graph, groups = whole, _grouped(whole, states)
        wanted = _wanted(graph, groups, wish, overrides)
        ranges = _shared_ranges(graph, groups, wanted, seen)
        wishes = replace(wishes, activations=wanted, ranges=ranges)
    forms: dict[str, Form] = {}
    refused: dict[str, NoForm] = {}
    for op in graph.ops:
        try:
            forms[op.name] = choose(graph, op, wishes)
        except NoForm as refusal:
            refused[op.name] = refusal
    return Plan(graph, target, wish, groups, wanted, seen, ranges, cut_off, forms, refused)


def _grouped(graph: QnnGraph, states: Sequence[Kept]) -> Groups:
    """Groups the real tensors that share an encoding."""
    groups = Groups(graph, lambda t: t.dtype in REAL)
    for kept in states:
        if graph.tensors[kept.input].dtype in REAL:
            groups.join(kept.input, kept.output)
    return groups


def _asked(recipe: Recipe | str, graph: QnnGraph, sources: Mapping[str, Source]) -> Asked:
    found = named(recipe) if isinstance(recipe, str) else recipe
    if found.float:
        raise OpdbError(
            f"the recipe {found.name} quantizes nothing; leave it out, and compile with --dtype f16"
        )
    return asked(found, graph, sources)


def _wanted(graph: QnnGraph, groups: Groups, wish: Asked, overrides: Mapping[str, str]) -> dict[str, str]:
    """The type of every real tensor that is not a weight: the activations, and the tensors that share an encoding with them.

    If rules give several types to tensors with one encoding, the widest counts.
    """
    by_rule: dict[str, str] = {}
    for name, dtype in wish.types.items():
        if graph.tensors[name].dtype in REAL:
            root = groups.root(name)
            by_rule[root] = max(dtype, by_rule.get(root, dtype), key=lambda d: BY_SHORT[d].bits)
    chosen: dict[str, tuple[str, str]] = {}
    for name, dtype in overrides.items():
        if name not in graph.tensors or graph.tensors[name].dtype not in REAL:
            raise OpdbError(
                f"{graph.name}: overrides names '{name}', which is not a floating-point tensor of the graph"
            )
        other, given = chosen.setdefault(groups.root(name), (name, dtype))
        if given != dtype:
            raise OpdbError(f"overrides: {other} is {given} and {name} {dtype}, but they share one encoding")
    return {
        name: chosen.get(root := groups.root(name), ("", by_rule.get(root, wish.activations)))[1]
        for name, t in graph.tensors.items()
        if t.dtype in REAL and (t.type != "STATIC" or len(groups.members[groups.root(name)]) > 1)
    }


def _shared_ranges(
    graph: QnnGraph, groups: Groups, wanted: Mapping[str, str], seen: Mapping[str, Range]
) -> dict[str, Range]:
    """The range of each real tensor, joined with those that share its encoding: observed, or fixed by the spec of its op."""
    own = dict(seen)
    for op in graph.ops:
        for place in places(op):
            if place.output and place.rule.range and place.tensor in wanted:
                own[place.tensor] = fixed_range(place.rule)
    shared: dict[str, Range] = {}
    for name in wanted:
        root = groups.root(name)
        shared[root] = shared.get(root, Range()) | own.get(name, Range())
    return own | {name: shared[groups.root(name)] for name in wanted}
