"""merge-equal: merges ops of one kind with equal inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor
from opdb.lower.passes.arithmetic import operation
from opdb.lower.passes.edit import Edit
from opdb.lower.passes.static_ops import OTHERS

#: Constants of up to this many bytes are compared by value, larger ones by identity of the array.
BYTES = 4096


def run(edit: Edit) -> int:
    """Returns the number of ops removed."""
    seen: dict[Any, GraphOp] = {}
    merged = 0
    for op in edit.live():
        if op.op in OTHERS:
            continue
        held = seen.setdefault(_key(edit, op), op)
        merged += held is not op and _merged(edit, held, op)
    return merged


def _merged(edit: Edit, first: GraphOp, second: GraphOp) -> bool:
    """Makes the readers of ``second`` read ``first``; refuses if one of them is an output."""
    pairs = tuple(zip(first.outputs, second.outputs, strict=True))
    if not all(edit.inner(b) and edit.inner(a) for a, b in pairs):
        return False
    for a, b in pairs:
        edit.redirect(b, a)
    edit.replace([second], [])
    return True


def _key(edit: Edit, op: GraphOp) -> Any:
    inputs = tuple(None if t is None else _read(edit.tensors[t]) for t in op.inputs)
    what = operation(op)  # QNN has two spellings: ElementWiseSubtract, and ElementWiseBinary with a number
    params = () if what else tuple((p.name, p.dtype, p.shape, _flat(p.value)) for p in op.params)
    made = tuple((t.dtype, t.shape, t.quant, t.sparse) for t in map(edit.tensors.__getitem__, op.outputs))
    return what or op.op, op.package, inputs, tuple(sorted(params)), made


def _flat(value: Any) -> Any:
    return tuple(np.asarray(value).ravel().tolist())


def _read(tensor: GraphTensor) -> Any:
    """The key under which two inputs are equal: the name, or for a constant its numbers."""
    if tensor.type != "STATIC" or tensor.data is None:
        return tensor.name
    data = np.asarray(tensor.data)
    numbers: Any = data.tobytes() if data.nbytes <= BYTES else id(tensor.data)
    return tensor.dtype, tensor.shape, tensor.quant, numbers
