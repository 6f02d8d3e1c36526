"""Replaces a function of single elements by a table: the stored number of x is the index of y's stored number.

8 bits need a Cast to INT_32 and a Gather of 256 entries.  No Cast makes an index of 16 bits, so the number is written as 257 * high + low,
each part of 8 bits, and the table has an entry for each pair of parts.  HTP finds the exact entry for 99 of 100 numbers,
and one at most two places away for the others, where low is cut off (HTP v68 and v73, QNN 2.47).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, GraphTensor, QnnGraph, single
from opdb.core.op_config import OpConfig, ParamConfig, Quant
from opdb.generated.constants.quant import POINTWISE
from opdb.judge.errata.policy import refuses
from opdb.judge.validate import check
from opdb.lower.quantize.draft import add
from opdb.lower.quantize.encodings import Range, encoding
from opdb.lower.quantize.in_floats import REAL
from opdb.runtime.kernels import run_graph
from opdb.runtime.qnn.real_numbers import limits, quantized

Array = np.ndarray[Any, Any]
#: Types whose stored numbers are indices into a table, with the table's size.
ENTRIES = {"uq8": 256, "uq16": 65536}
#: One step of the high part in steps of x: 255 * 257 is 65535.
HIGH = 257
#: The stored number of the low part that stands for 0.
MIDDLE = 128


def source(graph: QnnGraph, op: GraphOp) -> str:
    """The tensor whose elements each determine one element of the node's only result; "" for another node.

    The node's other inputs are constants of one element.
    """
    if op.op not in POINTWISE or len(op.outputs) != 1 or op.package != "qti.aisw":
        return ""
    read = [graph.tensors[n] for n in op.inputs if n is not None]
    moving = {t.name for t in read if t.type != "STATIC"}
    constant = all(math.prod(t.shape) == 1 for t in read if t.type == "STATIC")
    if len(moving) != 1 or not constant:
        return ""
    (x,) = (graph.tensors[n] for n in moving)
    y = graph.tensors[op.outputs[0]]
    real = x.dtype in REAL and y.dtype in REAL
    return x.name if real and math.prod(x.shape) == math.prod(y.shape) else ""


def refusal(
    graph: QnnGraph, op: GraphOp, activations: Mapping[str, str], ranges: Mapping[str, Range], target: Target
) -> str:
    """Why ``target`` has no table for a node with a ``source``; "" if it has one."""
    sketch, ends = QnnGraph("table"), []
    for name in (source(graph, op), op.outputs[0]):
        dtype = activations.get(name, "")
        if dtype not in ENTRIES:
            return f"a table is of {' or '.join(ENTRIES)}, and {name} is {dtype or 'not quantized'}"
        quant = encoding(ranges.get(name, Range()), dtype, False)
        ends.append(replace(graph.tensors[name], dtype=dtype, quant=quant))
        add(sketch, ends[-1])
    look_up(sketch, index(sketch, ends[0], op.origin), ends[1], None, op.origin)
    faults = (_fault(sketch.op_config(part), target) for part in sketch.ops)
    return "; ".join(dict.fromkeys(f for f in faults if f))


def entries(graph: QnnGraph, op: GraphOp, x: GraphTensor, y: GraphTensor) -> Array:
    """The entries of the table: the node's C kernel applied to the values of ``x``, in the encoding of ``y``.

    Values beyond the range of ``y`` become its end; where the function has no value, the nearest x with a value counts.  ``x`` and
    ``y``: the quantized tensors.  Raises OpdbError if it has no value at all.
    """
    places = _reals(x)
    config = graph.op_config(op)
    inputs: list[Any] = []
    read = []
    for name, tensor in zip(op.inputs, config.inputs, strict=True):
        moving = name == x.name
        inputs.append(places.astype(np.float32) if moving else tensor.data)
        shape = places.shape if moving else (1,)
        read.append(tensor if name is None else replace(tensor, shape=shape))
    made = replace(config.outputs[0], shape=places.shape, type="NATIVE")
    alone = single(replace(config, inputs=tuple(read), outputs=(made,)), inputs)
    given = {t.name: places.astype(np.float32) for t in alone.inputs}
    (values,) = run_graph(alone, given).values()
    valid = np.flatnonzero(~np.isnan(values))
    if not valid.size:
        raise OpdbError(f"node {op.name} ({op.op}) has no value anywhere in the range of {x.name}")
    behind = np.clip(np.searchsorted(valid, np.arange(values.size)), 0, valid.size - 1)
    before = np.maximum(behind - 1, 0)
    here = np.arange(values.size)
    nearest = np.where(here - valid[before] < valid[behind] - here, valid[before], valid[behind])
    held = values.astype(np.float64)[nearest]
    low, high = _ends(y)
    assert y.quant is not None
    return np.asarray(quantized(np.clip(held, low, high), y.dtype, y.quant, f"the table of {op.name}"))


def index(made: QnnGraph, x: GraphTensor, origin: str) -> str:
    """Writes the ops that turn the numbers of ``x`` into table indices; returns the name of the indices, [elements] of i32."""
    ops = _Ops(made, (math.prod(x.shape),), origin)
    # After an op, Gather mixes up indices of four dimensions: 99,850 of 100,352 of [1, 56, 56, 32] (QNN 2.47, QCM6490 and SM8650).
    flat = x.name if len(x.shape) == 1 else ops.write("Reshape", [x.name], f"{x.name}_flat", x.dtype, x.quant)
    if x.dtype == "uq8":
        return ops.write("Cast", [flat], f"{x.name}_index", "i32")
    high, whole, rest = _parts(x)
    of_high = ops.write("Convert", [flat], f"{x.name}_high", "uq8", high)
    again = ops.write("Convert", [of_high], f"{x.name}_whole", x.dtype, whole)
    left = ops.write("ElementWiseSubtract", [flat, again], f"{x.name}_rest", x.dtype, rest)
    low = ops.write("Convert", [left], f"{x.name}_low", "uq8", rest)
    row = ops.write("Cast", [of_high], f"{x.name}_row", "i32")
    column = ops.write("Cast", [low], f"{x.name}_column", "i32")
    of_row = GraphTensor(f"{x.name}_columns", "i32", (1,), "STATIC", np.array([256], np.int32))
    start = ops.write("ElementWiseMultiply", [row, add(made, of_row)], f"{x.name}_start", "i32")
    return ops.write("ElementWiseAdd", [start, column], f"{x.name}_index", "i32")


def look_up(made: QnnGraph, places: str, y: GraphTensor, data: Array | None, origin: str) -> None:
    """Writes the ops that make ``y``, which ``made`` already has, from the entries ``data`` at ``places``."""
    at = made.tensors[places]
    ops = _Ops(made, at.shape, origin)
    size = len(data) if data is not None else max(ENTRIES.values())
    table = add(made, GraphTensor(f"{y.name}_table", y.dtype, (size,), "STATIC", data, y.quant))
    axis = (ParamConfig("axis", "i32", 0),)
    if y.shape == at.shape:
        ops.onto("Gather", [table, places], y.name, axis)
        return
    found = ops.write("Gather", [table, places], f"{y.name}_found", y.dtype, y.quant, axis)
    ops.onto("Reshape", [found], y.name)


class _Ops:
    """Appends ops on tensors of one shape."""

    def __init__(self, made: QnnGraph, shape: tuple[int, ...], origin: str) -> None:
        self.made, self.shape, self.origin = made, shape, origin

    def write(
        self,
        op: str,
        inputs: list[str],
        name: str,
        dtype: str,
        quant: Quant | None = None,
        params: tuple[ParamConfig, ...] = (),
    ) -> str:
        name = add(self.made, GraphTensor(name, dtype, self.shape, "NATIVE", None, quant))
        self.onto(op, inputs, name, params)
        return name

    def onto(self, op: str, inputs: list[str], name: str, params: tuple[ParamConfig, ...] = ()) -> None:
        self.made.ops.append(
            GraphOp(f"{name}_{op.lower()}", op, tuple(inputs), params, (name,), origin=self.origin)
        )


def _parts(x: GraphTensor) -> tuple[Quant, Quant, Quant]:
    """The encodings of the high part in 8 bits, of the high part in the steps of ``x``, and of the rest."""
    scale, offset = _step(x)
    high = round(offset / HIGH)
    large = float(np.float32(scale * HIGH))
    return (
        Quant("SCALE_OFFSET", (large,), (high,)),
        Quant("SCALE_OFFSET", (scale,), (high * HIGH,)),
        Quant("SCALE_OFFSET", (scale,), (-MIDDLE,)),
    )


def _reals(x: GraphTensor) -> Array:
    """The real value of each index of a table of ``x``, in float64, within the range of ``x``."""
    scale, offset = _step(x)
    steps = np.arange(ENTRIES[x.dtype], dtype=np.float64)
    if x.dtype == "uq8":
        return (steps + offset) * scale
    high, low = np.divmod(steps, 256)
    return np.clip(((high + round(offset / HIGH)) * HIGH + low - MIDDLE) * scale, *_ends(x))


def _ends(t: GraphTensor) -> tuple[float, float]:
    """The smallest and the largest real number of a quantized tensor."""
    scale, offset = _step(t)
    low, high = limits(t.dtype)
    return (low + offset) * scale, (high + offset) * scale


def _step(t: GraphTensor) -> tuple[float, int]:
    assert t.quant is not None
    return t.quant.scale[0], t.quant.offset[0]


def _fault(config: OpConfig, target: Target) -> str:
    """Why a target does not accept an op of a table; "" if it does."""
    verdict = check(config, target)
    against = [v for v in verdict.violations if not v.warning or (v.erratum and refuses(v.erratum, target))]
    if not against and verdict.verdict == "accept":
        return ""
    return "; ".join(f"{v.brief} ({v.rule})" for v in against) or f"{config.op} cannot be judged"
