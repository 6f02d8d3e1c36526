"""Clips attention masks: large negative numbers, which a softmax turns into zeros, would take steps from the scores.

A score that is 16 below the largest of its row becomes e**-16 of it, less than half a step of any result in 8 or 16 bits.  So the
encoding of a softmax's input need not reach lower, and a mask of -60000 is as good as one of -20.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdb.core.graph import QnnGraph
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.propagate import Groups

#: Values count down to this far below the largest score of a row.
DEPTH = 16.0
#: Values are cut off only if the range reaches this much lower still: then the range is that of a mask, not of scores.
MASKED = 64.0
#: Numbers beyond this stand for infinity, e.g. torch.finfo(torch.float32).min; they become ``LARGEST``.
ENDLESS, LARGEST = 1e30, 60000.0
#: The op whose result is the sum of scores and a mask.
ADDING = "ElementWiseAdd"


@dataclass(frozen=True)
class Clipped:
    """A tensor whose values below ``floor`` are stored as ``floor``; ``low`` is the lowest value observed."""

    tensor: str
    low: float
    floor: float

    def __str__(self) -> str:
        return (
            f"{self.tensor}: values from {self.low:.4g} to {self.floor:.4g} are stored as {self.floor:.4g}; "
            "the softmax behind it makes them 0 all the same"
        )


def softmax_axes(graph: QnnGraph) -> dict[str, int]:
    """Maps tensors that only softmaxes read to the softmax axis."""
    readers: dict[str, list[Any]] = {}
    for op in graph.ops:
        for name in op.inputs:
            if name is not None:
                readers.setdefault(name, []).append(op)
    found = {}
    for name, ops in readers.items():
        if all(op.op == "Softmax" for op in ops):
            axes = {p.value for p in ops[0].params if p.name == "axis"}
            found[name] = int(next(iter(axes), len(graph.tensors[name].shape) - 1))
    return found


def floor_of(axis: int | None, values: Any) -> float | None:
    """The lowest value that the encoding of a softmax's input must reach; fully masked rows do not count."""
    array = np.asarray(values)
    if axis is None or axis >= array.ndim:
        return None
    largest = array.max(axis)
    rows = largest[largest > array.min() / 2] if array.min() < -MASKED else largest
    return float(rows.min()) - DEPTH if rows.size else None


def finite(graph: QnnGraph) -> QnnGraph:
    """Replaces static numbers that stand for infinity in the graph by +-60000, which HTP's floats have, too."""
    tensors = {}
    for name, t in graph.tensors.items():
        if t.type == "STATIC" and t.dtype in ("f32", "f16"):
            data = np.asarray(t.data)
            if data.size and np.abs(data).max() > ENDLESS:
                endless = np.abs(data) > ENDLESS
                t = replace(t, data=np.where(endless, np.sign(data) * LARGEST, data).astype(data.dtype))
        tensors[name] = t
    return QnnGraph(graph.name, tensors, list(graph.ops))


def clipped(
    graph: QnnGraph, groups: Groups, ranges: Mapping[str, Range], floors: Mapping[str, float]
) -> tuple[dict[str, Range], list[Clipped]]:
    """Returns ``ranges`` without the part that masks add to them, and the tensors that were clipped."""
    found = dict(ranges)
    said = []
    written = {name: op for op in graph.ops for name in op.outputs}

    def cut(name: str, floor: float) -> None:
        for member in groups.members[groups.root(name)]:
            held = found.get(member)
            if held is not None and held.low < floor - MASKED:
                found[member] = Range(min(floor, 0.0), held.high)
                said.append(Clipped(member, held.low, min(floor, 0.0)))

    for name, floor in floors.items():
        if name not in found or found[name].low >= floor - MASKED:
            continue
        cut(name, floor)
        for member in groups.members[groups.root(name)]:
            maker = written.get(member)
            if maker is None or maker.op != ADDING:
                continue
            summands = [o for o in maker.inputs if o is not None and o in found]
            highest = sum(found[o].high for o in summands)
            for summand in summands:
                cut(summand, floor - highest)
    return found, said
