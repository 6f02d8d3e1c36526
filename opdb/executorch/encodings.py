"""Which tensors between the ops of one node can have an encoding."""

from __future__ import annotations

from opdb.generated.constants.quant import RULES
from opdb.runtime.lowering import Lowered, LoweredOp
from opdb.runtime.tensors import TensorRef

#: Ops that choose: each value of the result is one of the first input's, whose encoding holds it as well.
CHOOSING = ("ReduceMax", "ReduceMin", "PoolMax2d", "PoolMax3d")
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
            tensors = {_key(t) for t in (_shared(op) or _chosen(op))}
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


def _key(t: TensorRef) -> object:
    return ("local", t.local) if t.local is not None else t.key
