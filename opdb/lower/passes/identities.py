"""drop-identities: removes ops whose result equals their input."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp
from opdb.judge.errata.policy import active
from opdb.judge.errata.records import RECORDS
from opdb.lower.passes.arithmetic import operation, scaling
from opdb.lower.passes.edit import Edit, parameter

#: Ops that only move values: a result with the shape, type and encoding of the input equals the input.
MOVES = ("Cast", "Concat", "Convert", "Pad", "Reshape", "StridedSlice", "Tile", "Transpose")


def run(edit: Edit) -> int:
    """Returns the number of ops removed."""
    return sum(
        ((x := _unchanged(edit, op)) is not None and edit.bypass(op, x)) or _broadcast(edit, op)
        for op in edit.live()
    )


def _broadcast(edit: Edit, op: GraphOp) -> bool:
    """Removes a Tile of dimensions of one element if each op that reads it broadcasts them itself."""
    if op.op != "Tile" or not edit.inner(op.outputs[0]):
        return False
    x, y = edit.tensors[op.inputs[0] or ""], edit.tensors[op.outputs[0]]
    if x.quant != y.quant or any(a not in (1, b) for a, b in zip(x.shape, y.shape, strict=True)):
        return False
    for reader in edit.readers(y.name):
        others = [edit.tensors[t or ""].shape for t in reader.inputs if t != y.name]
        now = replace(reader, inputs=tuple(x.name if t == y.name else t for t in reader.inputs))
        if operation(reader) is None or others != [y.shape] or not edit.legal(now, faultless=True):
            return False
    return edit.bypass(op, x.name)


def _unchanged(edit: Edit, op: GraphOp) -> str | None:
    """The tensor that equals the result of ``op``; None if there is none, or if it is a constant."""
    if op.op in MOVES:
        x = op.inputs[0] or ""
        return x if _alike(edit, x, op.outputs[0]) and _in_place(op) else None
    s = scaling(edit, op)
    if s is None or _halves(edit.target):
        return None
    same = (s.factor is None or np.all(s.factor == 1)) and (s.term is None or not np.any(s.term))
    return s.x if same else None


def _alike(edit: Edit, x: str, y: str) -> bool:
    a, b = edit.tensors[x], edit.tensors[y]
    return (a.shape, a.dtype, a.quant) == (b.shape, b.dtype, b.quant) and a.type != "STATIC"


def _in_place(op: GraphOp) -> bool:
    """True if an op whose result has the shape of its input leaves every value in its place."""
    if op.op == "Transpose":
        perm = [int(p) for p in parameter(op, "perm")]
        return perm == sorted(perm)
    if op.op == "StridedSlice":
        return all(int(step) == 1 for step in parameter(op, "ranges")[2::3])
    return op.op != "Concat" or len(op.inputs) == 1


@lru_cache
def _halves(target: Target) -> bool:
    """True if products with 1 are there for a reason: a workaround that makes HTP compute floats in half precision."""
    return any(r.workaround == "in-half-precision" and active(i, target) for i, r in RECORDS.items())
