"""The ranges of quantized tensors between the ops of one node."""

from __future__ import annotations

from opdb.core.dtypes import BY_SHORT
from opdb.generated.constants.quant import RULES
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.tensors import TensorRef, stored_range, widened

#: Ops that choose: each value of the result is one of the first input's, or lies between some; the input's encoding holds it too.
CHOOSING = ("ReduceMax", "ReduceMin", "PoolMax2d", "PoolMax3d", "PoolAvg2d")
#: Ops whose result is no finer than the first input: the input's step is enough for what a Convert makes of the result.
INTERPOLATING = ("Resize",)


def unranged(lowered: Lowered) -> str:
    """The first tensor between the ops of a node whose range is unknown; "" if there is none.

    Tensors between the ops are never observed.  A tensor whose values are only moved or chosen, before or after, has the
    encoding of its source or of its result; anything else would saturate, so a quantized node must not become these ops.
    A workaround may choose an encoding that holds everything that the op can produce, or everything that a Convert keeps of it.
    """
    between = [t for op in lowered.ops for t in op.outputs if t.local and BY_SHORT[t.dtype].quantized]
    if not between:
        return ""
    known = {
        _key(t) for op in lowered.ops for t in (*op.inputs, *op.outputs) if t is not None and t.local is None
    }
    known |= {_key(t) for op in lowered.ops for t in _bounded(op)}
    interpolated = {_key(t) for op in lowered.ops if op.op in INTERPOLATING for t in op.outputs}
    moved = True
    while moved:
        moved = False
        for op in lowered.ops:
            tensors = {_key(t) for t in (_shared(op) or _chosen(op) or _grown(op) or _widened(op))}
            if tensors & known and not tensors <= known:
                known |= tensors
                moved = True
            source = _cut(op)
            if source in interpolated - known and _key(op.outputs[0]) in known:
                known.add(source)
                moved = True
    return next((t.local or "" for t in between if _key(t) not in known), "")


def _shared(op: LoweredOp) -> list[TensorRef]:
    """The tensors of ``op`` that share one encoding."""
    names = RULES[op.op].shared
    tensors = (*op.inputs, *op.outputs)
    slots = op.slots or ("",) * len(tensors)
    return [t for slot, t in zip(slots, tensors, strict=False) if slot in names and t is not None]


def _chosen(op: LoweredOp) -> list[TensorRef]:
    """The first input of an op that chooses, and its result if that has the same encoding; otherwise nothing."""
    source = op.inputs[0]
    if op.op not in CHOOSING or source is None or op.outputs[0].quant != source.quant:
        return []
    return [source, op.outputs[0]]


def _grown(op: LoweredOp) -> list[TensorRef]:
    """The input and the product of a multiplication by constants of at least 1, if both have the same encoding, which holds zero."""
    if op.op != "ElementWiseMultiply":
        return []
    source, factors = op.inputs
    if source is None or factors is None or factors.data is None or min(factors.data) < 1:
        return []
    return [source, op.outputs[0]] if source.quant == op.outputs[0].quant else []


def _widened(op: LoweredOp) -> list[TensorRef]:
    """The input and result of a Convert between 8 bits and the same numbers with more bits, in either direction."""
    if op.op != "Convert" or op.inputs[0] is None:
        return []
    source, result = op.inputs[0], op.outputs[0]
    narrow, wide = sorted((source, result), key=lambda t: BY_SHORT[t.dtype].bits)
    if narrow.dtype != "uq8" or narrow.encoding != "SCALE_OFFSET" or widened(narrow).quant != wide.quant:
        return []
    return [source, result]


def _cut(op: LoweredOp) -> object:
    """The key of a Convert's input if its range includes that of the result, except for half a step; else None."""
    if op.op != "Convert" or (source := op.inputs[0]) is None:
        return None
    result = op.outputs[0]
    if {source.encoding, result.encoding} != {"SCALE_OFFSET"}:
        return None
    (low, high), (least, most) = stored_range(source), stored_range(result)
    return _key(source) if low <= least + source.scale / 2 and high >= most - source.scale / 2 else None


def _bounded(op: LoweredOp) -> list[TensorRef]:
    """The results whose range the spec gives and whose encoding is made for it: the ends differ by at most a step."""
    params = {p.name: p.value for p in op.params}
    slots = op.slots[len(op.inputs) :]
    found = []
    for slot, t in zip(slots, op.outputs, strict=False):
        limits = RULES[op.op].rule(slot, params).range
        if limits is None or t.encoding != "SCALE_OFFSET":
            continue
        if all(abs(a - b) <= t.scale for a, b in zip(stored_range(t), limits, strict=True)):
            found.append(t)
    return found


def _key(t: TensorRef) -> object:
    return ("local", t.local) if t.local is not None else t.key
