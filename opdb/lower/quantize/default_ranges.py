"""Quantizes a float graph with made-up ranges: enough for its cost, useless for its numbers.

Ranges change nothing in the estimate: MobileNetV2 took the same cycles with made-up ranges and with calibrated ones (docs/guides/cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, QnnGraph
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.plan import Plan, forms_of
from opdb.lower.quantize.propagate import fixed_range
from opdb.lower.quantize.quantizer import quantize
from opdb.lower.quantize.recipe import Recipe
from opdb.lower.quantize.recipe_types import Source
from opdb.lower.quantize.slots import places

LARGEST = 4.0
WIDEST, POSITIVE = Range(-LARGEST, LARGEST), Range(0.0, LARGEST)
#: Ops whose results are never negative.
_POSITIVE = ("Relu", "Relu1", "Relu6", "ReluMinMax", "ElementWiseNeuron", "Sigmoid", "Softmax")


def quantized(
    graph: QnnGraph, recipe: Recipe, target: Target, sources: Mapping[str, Source] | None = None
) -> QnnGraph:
    """Quantizes ``graph`` by opdb.lower.quantize, with inputs and activations from -4, or 0, to 4.

    Raises OpdbError for a node that has no form on ``target``.
    """
    return quantize(
        graph, [_inputs(graph)], target=target, recipe=_unobserved(recipe), sources=sources, run=_ranges
    )


def forms(
    graph: QnnGraph, recipe: Recipe, target: Target, sources: Mapping[str, Source] | None = None
) -> Plan:
    """Plans each op of ``graph`` with made-up ranges; the plan has the reasons of the ops without a form.

    The plan's graph has the ops of ``graph``, some of them in another form.
    """
    return forms_of(
        graph, [_inputs(graph)], target=target, recipe=_unobserved(recipe), sources=sources, run=_ranges
    )


def _unobserved(recipe: Recipe) -> Recipe:
    """``recipe`` with the min-max observer, which keeps the ends of made-up ranges: two values have no distribution."""
    if recipe.activations is None:
        return recipe
    rules = [
        r.model_copy(update={"activations": r.activations.model_copy(update={"observer": "min-max"})})
        if r.activations is not None
        else r
        for r in recipe.rules
    ]
    activations = recipe.activations.model_copy(update={"observer": "min-max"})
    return recipe.model_copy(update={"activations": activations, "rules": rules})


def _inputs(graph: QnnGraph) -> dict[str, np.ndarray[Any, Any]]:
    return {t.name: _ends(t.dtype) for t in graph.inputs}


def _ends(dtype: str) -> np.ndarray[Any, Any]:
    ends = np.array([-LARGEST, LARGEST], np.float32)
    return ends if dtype in ("f32", "f16") else np.zeros(1, np.int32)


def _limits(op: GraphOp) -> Range | None:
    """The part of the assumed range that a clamp leaves; None for another op."""
    given = {p.name: float(p.value) for p in op.params if p.name in ("min_value", "max_value")}
    if not given:
        return None
    low, high = given.get("min_value", -LARGEST), given.get("max_value", LARGEST)
    return Range(min(max(-LARGEST, low), 0.0), max(min(LARGEST, high), 0.0))


def _ranges(graph: QnnGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Stands in for a run: the smallest and the largest value of every result.

    Ops that only move values pass on the range of their inputs, e.g. of a Softmax between Transposes.
    """
    found: dict[str, Range] = {}
    for op in graph.ops:
        of_node = places(op)
        moved = [found.get(p.tensor, WIDEST) for p in of_node if p.shared and not p.output]
        for place in of_node:
            if not place.output:
                continue
            if place.rule.range:
                found[place.tensor] = fixed_range(place.rule)
            elif limits := _limits(op):
                found[place.tensor] = limits
            elif place.shared and moved:
                found[place.tensor] = reduce(or_, moved)
            else:
                found[place.tensor] = POSITIVE if op.op in _POSITIVE else WIDEST
    return {
        t.name: np.array([found[t.name].low, found[t.name].high], np.float32)
        for t in graph.outputs
        if t.name in found
    }
