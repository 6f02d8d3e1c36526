"""A quantized form of a float graph with ranges that nobody measured: enough for its cost, useless for its numbers.

Ranges change nothing in the estimate: MobileNetV2 took the same cycles with made-up ranges and with calibrated ones (docs/guides/cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opdb.graph import QnnGraph
from opdb.quantize.asked import Source
from opdb.quantize.plan import Plan, forms_of
from opdb.quantize.quantizer import quantize
from opdb.quantize.recipe import Recipe
from opdb.targets.target import Target

LARGEST = 4.0
#: Ops whose results are never negative.
_POSITIVE = ("Relu", "Relu1", "Relu6", "ReluMinMax", "ElementWiseNeuron", "Sigmoid", "Softmax")


def quantized(
    graph: QnnGraph, recipe: Recipe, target: Target, sources: Mapping[str, Source] | None = None
) -> QnnGraph:
    """``graph`` by opdb.quantize, with activations from -4, or 0, to 4.

    Raises OpdbError for a node that has no form on ``target``.
    """
    return quantize(
        graph, [_inputs(graph)], target=target, recipe=_unobserved(recipe), sources=sources, run=_ranges
    )


def forms(
    graph: QnnGraph, recipe: Recipe, target: Target, sources: Mapping[str, Source] | None = None
) -> Plan:
    """What each op of ``graph`` becomes with such ranges, and why those without a form have none."""
    return forms_of(
        graph, [_inputs(graph)], target=target, recipe=_unobserved(recipe), sources=sources, run=_ranges
    )


def _unobserved(recipe: Recipe) -> Recipe:
    """``recipe`` with the ends of made-up ranges as they are: two values have no distribution."""
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
    return np.array([0.0, 1.0], np.float32) if dtype in ("f32", "f16") else np.zeros(1, np.int32)


def _ranges(graph: QnnGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """In the place of a run: the least and the largest value of every result."""
    made_by = {t: op.op for op in graph.ops for t in op.outputs}
    return {
        t.name: np.array([0.0 if made_by[t.name] in _POSITIVE else -LARGEST, LARGEST], np.float32)
        for t in graph.outputs
    }
