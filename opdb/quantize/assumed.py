"""A quantized form of a float graph with ranges that nobody measured: enough for its cost, useless for its numbers.

Ranges change nothing in the estimate: MobileNetV2 took the same cycles with made-up ranges and with calibrated ones (docs/guides/cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.quantize.choose import Form, NoForm
from opdb.quantize.quantizer import SCHEMES, forms_of, quantize
from opdb.targets.target import Target

LARGEST = 4.0
#: Ops whose results are never negative.
_POSITIVE = ("Relu", "Relu1", "Relu6", "ReluMinMax", "ElementWiseNeuron", "Sigmoid", "Softmax")


def quantized(graph: QnnGraph, scheme: str, target: Target) -> QnnGraph:
    """``graph`` by opdb.quantize, with activations from -4, or 0, to 4.

    Raises OpdbError for an unknown scheme and for a node that has no form on ``target``.
    """
    activations, weights = named(scheme)
    return quantize(
        graph, [_inputs(graph)], target=target, activations=activations, weights=weights, run=_ranges
    )


def forms(graph: QnnGraph, scheme: str, target: Target) -> tuple[dict[str, Form], dict[str, NoForm]]:
    """What each op of ``graph`` becomes with such ranges, by its name, and why those without a form have none.

    Raises OpdbError for an unknown scheme.
    """
    activations, weights = named(scheme)
    return forms_of(
        graph, [_inputs(graph)], target=target, activations=activations, weights=weights, run=_ranges
    )


def named(scheme: str) -> tuple[str, str]:
    """The types of activations and weights.  Raises OpdbError for an unknown scheme."""
    if scheme not in SCHEMES:
        raise OpdbError(f"--quantize {scheme}: one of {', '.join(SCHEMES)}")
    return SCHEMES[scheme]


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
