"""A quantized form of a float graph with ranges that nobody measured: enough for its cost, useless for its numbers.

Ranges change nothing in the estimate: MobileNetV2 took the same cycles with made-up ranges and with calibrated ones (docs/guides/cost.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from opdb.errors import OpdbError
from opdb.graph import QnnGraph
from opdb.quantize import SCHEMES, quantize
from opdb.targets.target import Target

LARGEST = 4.0
#: Ops whose results are never negative.
_POSITIVE = ("Relu", "Relu1", "Relu6", "ReluMinMax", "ElementWiseNeuron", "Sigmoid", "Softmax")


def quantized(graph: QnnGraph, scheme: str, target: Target) -> QnnGraph:
    """``graph`` by opdb.quantize, with activations from -4, or 0, to 4.

    Raises OpdbError for an unknown scheme and for a node that has no quantized form on ``target``.
    """
    if scheme not in SCHEMES:
        raise OpdbError(f"--quantize {scheme}: one of {', '.join(SCHEMES)}")
    activations, weights = SCHEMES[scheme]
    inputs = {t.name: _ends(t.dtype) for t in graph.inputs}
    return quantize(graph, [inputs], target=target, activations=activations, weights=weights, run=_ranges)


def _ends(dtype: str) -> np.ndarray[Any, Any]:
    return np.array([0.0, 1.0], np.float32) if dtype in ("f32", "f16") else np.zeros(1, np.int32)


def _ranges(graph: QnnGraph, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """In the place of a run: the least and the largest value of every result."""
    made_by = {t: op.op for op in graph.ops for t in op.outputs}
    return {
        t.name: np.array([0.0 if made_by[t.name] in _POSITIVE else -LARGEST, LARGEST], np.float32)
        for t in graph.outputs
    }
