"""cancel-casts: removes Casts, Converts, and a Quantize after a Dequantize, that restore their input, or its other signedness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import Quant
from opdb.lower.passes.edit import Edit
from opdb.runtime.qnn.real_numbers import limits

PAIRS = {("Cast", "Cast"), ("Convert", "Convert"), ("Dequantize", "Quantize")}


def run(edit: Edit) -> int:
    """Returns the number of pairs that became one op or none."""
    return sum(_changed(edit, op) for op in edit.live())


def _changed(edit: Edit, op: GraphOp) -> bool:
    first = edit.maker(op.inputs[0]) if op.inputs else None
    if first is None or (first.op, op.op) not in PAIRS:
        return False
    x, between, y = (edit.tensors[t or ""] for t in (first.inputs[0], op.inputs[0], op.outputs[0]))
    if x.type == "STATIC" or not _keeps(op.op, x, between):
        return False
    if (x.dtype, x.quant) == (y.dtype, y.quant):
        return edit.bypass(op, x.name)
    if op.op == "Quantize" and _same_numbers(x, y):
        return edit.rewrite([op], [replace(op, op="Convert", inputs=(x.name,))])
    if op.op == "Cast" and (holds(x.dtype, y.dtype) or _whole(x.dtype) == _whole(between.dtype)):
        return edit.rewrite([op], [replace(op, inputs=(x.name,))])
    return False


def _same_numbers(x: GraphTensor, y: GraphTensor) -> bool:
    """True if signed and unsigned stored integers represent the same numbers."""
    if x.quant is None or y.quant is None or BY_SHORT[x.dtype].bits != BY_SHORT[y.dtype].bits:
        return False
    signs = [d.startswith("s") for d in (x.dtype, y.dtype)]
    shift = (signs[1] - signs[0]) * (1 << BY_SHORT[x.dtype].bits - 1)
    return (
        _plain(x.quant)
        and _plain(y.quant)
        and x.quant.scale == y.quant.scale
        and y.quant.offset[0] - x.quant.offset[0] == shift
    )


def _keeps(kind: str, x: GraphTensor, between: GraphTensor) -> bool:
    """True if every value of ``x`` is restored from ``between``."""
    if kind == "Cast":
        return holds(x.dtype, between.dtype)
    if kind == "Quantize":  # 24 bits in between: rounding to up to 65,536 steps gives back the original one
        return between.dtype == "f32" and BY_SHORT[x.dtype].bits <= 16 and _plain(x.quant)
    return _finer(x, between)


def holds(narrow: str, wide: str) -> bool:
    """True if a wider unquantized type holds every value of a narrower one."""
    a, b = BY_SHORT[narrow], BY_SHORT[wide]
    if a.quantized or b.quantized or "bf16" in (narrow, wide) or a.numpy is None or b.numpy is None:
        return False
    return bool(np.can_cast(a.numpy, b.numpy, "safe"))


def _whole(dtype: str) -> bool:
    return dtype[0] in "iu"


def _plain(quant: Quant | None) -> bool:
    return quant is not None and quant.encoding == "SCALE_OFFSET"


def _finer(x: GraphTensor, between: GraphTensor) -> bool:
    """True if ``between`` spans the range of ``x`` in steps of at most half the size, so rounding there and back restores each value."""
    if not (_plain(x.quant) and _plain(between.quant)) or BY_SHORT[between.dtype].bits > 16:
        return False
    (low, high), (least, most) = _span(x), _span(between)
    assert x.quant is not None and between.quant is not None
    step = between.quant.scale[0]
    return step <= x.quant.scale[0] / 2 and least <= low + step / 4 and high - step / 4 <= most


def _span(t: GraphTensor) -> tuple[float, float]:
    """The smallest and the largest real number of a tensor with one scale."""
    assert t.quant is not None
    low, high = ((edge + t.quant.offset[0]) * t.quant.scale[0] for edge in limits(t.dtype))
    return low, high
