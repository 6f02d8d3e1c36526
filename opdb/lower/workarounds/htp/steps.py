"""Ops that HTP computes correctly only for some encodings; Converts supply these, or convert from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import Quant
from opdb.generated.constants.quant import RULES
from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op
from opdb.runtime.tensors import TensorRef, intermediate


def in_65536ths(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """A function with values from 0 to 1 whose result has the scale 1 / 65536."""
    return _converted(op, 1 / 65536, 0, f"share_{facts.number}")


def of_x(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """An op whose result has the scale of x, the larger one: its range includes that of y."""
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    return _converted(op, x.scale, round(y.offset * y.scale / x.scale), f"in_steps_of_x_{facts.number}")


def of_y(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """A ScatterElements or ScatterNd whose x and updates have the encoding of the result."""
    y, made, read = op.outputs[0], [], list(op.inputs)
    for i, t in enumerate(op.inputs):
        if t is None or not BY_SHORT[t.dtype].quantized or t.quant == y.quant:
            continue
        held = replace(intermediate(f"in_steps_of_y_{facts.number}_{i}", t.shape, t), quant=y.quant)
        made.append(lowered_op("Convert", inputs={"x": t}, params=[], outputs={"y": held}))
        read[i] = held
    return [*made, replace(op, inputs=tuple(read))]


def in_encoding_of_x(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp]:
    """An op that copies stored numbers, with its result and all slots that share x's encoding in its spec (``share``) converted to it."""
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None and x.quant is not None
    shared = RULES[op.op].shared
    made: list[LoweredOp] = []
    inputs: list[TensorRef | None] = [x]
    for slot, t in zip(op.slots[1:], op.inputs[1:], strict=False):
        if t is not None and slot in shared and t.quant != x.quant:
            like_x = replace(intermediate(f"{slot}_as_x_{facts.number}", t.shape, t), quant=x.quant)
            made.append(lowered_op("Convert", inputs={"x": t}, params=[], outputs={"y": like_x}))
            t = like_x
        inputs.append(t)
    op = replace(op, inputs=tuple(inputs))
    if y.quant == x.quant:
        return [*made, op]
    return [*made, *_converted(op, x.scale, x.offset, f"as_x_{facts.number}")]


def _converted(op: LoweredOp, scale: float, offset: int, name: str) -> Sequence[LoweredOp]:
    y = op.outputs[0]
    quant = Quant("SCALE_OFFSET", (scale,), (offset,))
    inner = replace(intermediate(name, y.shape, y), quant=quant)
    return [
        replace(op, outputs=(inner,)),
        lowered_op("Convert", inputs={"x": inner}, params=[], outputs={"y": y}),
    ]
