"""The range of each quantized tensor of a graph: what calibration came to, to look at and to save."""

from __future__ import annotations

from dataclasses import dataclass

from opdb.graph import QnnGraph
from opdb.runtime.qnn.ends import limits


@dataclass(frozen=True)
class TensorRange:
    """Real values from ``low`` to ``high`` in steps of ``scale``; ``dtype``: short name, e.g. uq8; ``offset`` as QNN counts it."""

    low: float
    high: float
    dtype: str
    scale: float
    offset: int


def ranges_of(graph: QnnGraph) -> dict[str, TensorRange]:
    """Of the tensors with one scale that a run fills; not of static ones."""
    found = {}
    for tensor in graph.tensors.values():
        quant = tensor.quant
        if quant is not None and tensor.type != "STATIC" and len(quant.scale) == 1:
            scale, offset = quant.scale[0], quant.offset[0] if quant.offset else 0
            low, high = ((end + offset) * scale for end in limits(tensor.dtype))
            found[tensor.name] = TensorRange(low, high, tensor.dtype, scale, offset)
    return found
