"""The encodings of tensors between the ops of one node, and of constants that builders make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from opdb.dtypes import BY_SHORT
from opdb.generated.constants.quant import RULES
from opdb.runtime.lowering import Lowered, LoweredOp
from opdb.runtime.tensors import Rejection, TensorRef, widened

#: Ops that choose: each value of the result is one of the first input's, or lies between some; its encoding holds it too.
CHOOSING = ("ReduceMax", "ReduceMin", "PoolMax2d", "PoolMax3d", "PoolAvg2d")
#: How the data types begin whose values are stored as they are.
WHOLE = ("i", "u8", "u16", "u32", "u64", "bool")


def unranged(lowered: Lowered) -> str:
    """The first tensor between the ops of a node whose range nobody knows; "" if there is none.

    What lies between the ops is never observed.  Where it is only moved or chosen, before or after, it has the
    encoding of what it was or becomes; anything else would saturate, so a quantised node must not become these ops.
    """
    known = {
        _key(t) for op in lowered.ops for t in (*op.inputs, *op.outputs) if t is not None and t.local is None
    }
    moved = True
    while moved:
        moved = False
        for op in lowered.ops:
            tensors = {_key(t) for t in (_shared(op) or _chosen(op) or _grown(op) or _widened(op))}
            if tensors & known and not tensors <= known:
                known |= tensors
                moved = True
    for op in lowered.ops:
        for t in op.outputs:
            if t.local is not None and _key(t) not in known and not t.dtype.startswith(WHOLE):
                return t.local
    return ""


def _shared(op: LoweredOp) -> list[TensorRef]:
    """The tensors of ``op`` that have one encoding."""
    names = RULES[op.op].shared
    tensors = (*op.inputs, *op.outputs)
    slots = op.slots or ("",) * len(tensors)
    return [t for slot, t in zip(slots, tensors, strict=False) if slot in names and t is not None]


def _chosen(op: LoweredOp) -> list[TensorRef]:
    """The first input of an op that chooses, and its result where that has the same encoding."""
    source = op.inputs[0]
    if op.op not in CHOOSING or source is None or op.outputs[0].quant != source.quant:
        return []
    return [source, op.outputs[0]]


def _grown(op: LoweredOp) -> list[TensorRef]:
    """What is multiplied by constants of at least 1, and the product where it has the same encoding, which holds zero."""
    if op.op != "ElementWiseMultiply":
        return []
    source, factors = op.inputs
    if source is None or factors is None or factors.data is None or min(factors.data) < 1:
        return []
    return [source, op.outputs[0]] if source.quant == op.outputs[0].quant else []


def _widened(op: LoweredOp) -> list[TensorRef]:
    """A tensor and the same numbers with more bits, in the one or the other order."""
    if op.op != "Convert" or op.inputs[0] is None:
        return []
    source, result = op.inputs[0], op.outputs[0]
    narrow, wide = sorted((source, result), key=lambda t: BY_SHORT[t.dtype].bits)
    if narrow.dtype != "uq8" or narrow.encoding != "SCALE_OFFSET" or widened(narrow).quant != wide.quant:
        return []
    return [source, result]


def encoded(dtype: str, values: Sequence[float]) -> tuple[list[int], float, int]:
    """What is stored for ``values`` in the quantised type ``dtype``, with the scale and QNN's offset.

    One value is the type's end times a small scale, zero in the middle, as rules of weights want it.  A scale like
    the value itself would be far from those of the tensors beside it: HTP 2.47 computes the smaller of a tensor in 16
    bits and 1, stored as 1, wrong (probe: off by the whole range).  Several values are multiples of the
    least scale that represents all of them if there is one; ex) 1, 1.5 and 2.25 are 56, 84 and 126 times 1 / 56 (HTP 2.47
    computes products with 1, 2 and 4 times 1 wrong).
    """
    kind = BY_SHORT[dtype]
    if not all(math.isfinite(v) for v in values):
        raise Rejection(
            f"the constant {next(v for v in values if not math.isfinite(v))} of the type {kind.qnn}"
        )
    middle = 2 ** (kind.bits - 1)
    zero = middle if dtype.startswith("u") else 0
    largest = max(map(abs, values))
    scale = (largest or 1.0) / (middle - 1)
    if len(values) > 1:
        scale = min((s for s in _exact(values) if largest / s < middle - 0.5), default=scale)
    return [zero + round(v / scale) for v in values], scale, -zero


def _exact(values: Sequence[float]) -> Iterator[float]:
    """Scales of which all of ``values`` are whole multiples."""
    smallest = min((abs(v) for v in values if v), default=1.0)
    for parts in range(1, 257):
        scale = smallest / parts
        if all(abs(v / scale - round(v / scale)) < 1e-6 for v in values):
            yield scale


def _key(t: TensorRef) -> object:
    return ("local", t.local) if t.local is not None else t.key
