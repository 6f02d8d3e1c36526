"""The range of each quantized tensor of a graph: the outcome of calibration, to view and to save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opdb.core.graph import QnnGraph
from opdb.core.names import counted
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.slots import places
from opdb.runtime.qnn.real_numbers import limits


@dataclass(frozen=True)
class TensorRange:
    """Real values from ``low`` to ``high`` in steps of ``scale``; ``dtype``: short name, e.g. uq8; ``offset`` in QNN's convention."""

    low: float
    high: float
    dtype: str
    scale: float
    offset: int


@dataclass(frozen=True)
class Crowded:
    """A tensor that gets only ``steps`` steps of an encoding that it shares with a much wider tensor.

    ``low`` to ``high`` is its observed range, and ``wide`` is the other tensor, from ``wide_low`` to ``wide_high``.
    """

    op: str
    tensor: str
    low: float
    high: float
    steps: int
    wide: str
    wide_low: float
    wide_high: float

    def __str__(self) -> str:
        steps = counted(self.steps, "step")
        return (
            f"{self.op} joins {self.tensor} ({self.low:.4g} to {self.high:.4g}) with {self.wide} ({self.wide_low:.4g} to "
            f"{self.wide_high:.4g}) in one encoding, which leaves {self.tensor} {steps}; return them as separate "
            "outputs, or scale one of them"
        )


#: Warn when an input of Concat keeps fewer quantization steps than this.
FEWEST = 16


def crowded(graph: QnnGraph, observed: Mapping[str, Range]) -> list[Crowded]:
    """The inputs of joining ops, e.g. Concat, that keep too few steps; ``observed``: the range of each tensor by itself."""
    found = []
    for op in graph.ops:
        joined = [p.tensor for p in places(op) if p.shared and not p.output]
        spans = {n: observed[n] for n in joined if n in observed}
        wide = max(spans, key=lambda n: spans[n].high - spans[n].low, default="")
        for name, values in spans.items():
            quant = graph.tensors[name].quant
            if name == wide or quant is None or values.high == values.low:
                continue
            steps = round((values.high - values.low) / quant.scale[0])
            if steps < FEWEST:
                beside = spans[wide]
                found.append(
                    Crowded(op.name, name, values.low, values.high, steps, wide, beside.low, beside.high)
                )
    return found


def ranges_of(graph: QnnGraph) -> dict[str, TensorRange]:
    """The ranges of the tensors with one scale that a run fills; static ones are left out."""
    found = {}
    for tensor in graph.tensors.values():
        quant = tensor.quant
        if quant is not None and tensor.type != "STATIC" and len(quant.scale) == 1:
            scale, offset = quant.scale[0], quant.offset[0] if quant.offset else 0
            low, high = ((end + offset) * scale for end in limits(tensor.dtype))
            found[tensor.name] = TensorRange(low, high, tensor.dtype, scale, offset)
    return found
