"""Arithmetic that the passes share: ops that multiply by or add constants, and the axis along which the constants vary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor
from opdb.core.op_config import ParamConfig
from opdb.lower.passes.edit import Edit, parameter

Array = np.ndarray[Any, Any]
FLOATS = ("f32", "f16")
#: The operation of an op with two operands, by the op's name; ElementWiseBinary gives it as a number.
NAMED = {
    "ElementWiseAdd": "ADD",
    "ElementWiseSubtract": "SUBTRACT",
    "ElementWiseMultiply": "MULTIPLY",
    "ElementWiseDivide": "DIVIDE",
    "ElementWisePower": "POWER",
    "ElementWiseMaximum": "MAXIMUM",
    "ElementWiseMinimum": "MINIMUM",
}
NUMBERS = {0: "ADD", 2: "DIVIDE", 10: "MAXIMUM", 11: "MINIMUM", 13: "MULTIPLY", 16: "POWER", 18: "SUBTRACT"}
#: The op equivalent to an ElementWiseUnary, by its operation number.
SINGLES = {
    0: "ElementWiseAbs",
    5: "ElementWiseExp",
    8: "ElementWiseNeg",
    12: "ElementWiseRsqrt",
    13: "ElementWiseSign",
    15: "ElementWiseSquareRoot",
}
OPERATIONS = {name: number for number, name in NUMBERS.items()}


@dataclass(frozen=True)
class Scaling:
    """An op that computes y = x * factor + term in floats; x and y have the same shape.

    ``factor``, ``term``: float64, of shapes that broadcast to y's; None for 1 and 0.
    """

    op: GraphOp
    x: str
    y: str
    factor: Array | None
    term: Array | None


def operation(op: GraphOp | None) -> str | None:
    """The operation of an op with two operands, e.g. MULTIPLY; None for any other op."""
    if op is None:
        return None
    return NUMBERS.get(parameter(op, "operation")) if op.op == "ElementWiseBinary" else NAMED.get(op.op)


def single(op: GraphOp) -> str:
    """The name of an op with one operand; ElementWiseUnary is resolved by its operation number."""
    return SINGLES.get(parameter(op, "operation"), op.op) if op.op == "ElementWiseUnary" else op.op


def binary(like: GraphOp, what: str, inputs: Sequence[str], outputs: tuple[str, ...]) -> GraphOp:
    """An op with two operands that replaces ``like`` and spells its operation as ``like`` does."""
    kind = next(name for name, computes in NAMED.items() if computes == what)
    params: tuple[ParamConfig, ...] = ()
    if like.op == "ElementWiseBinary":
        kind, params = like.op, (ParamConfig("operation", "u32", OPERATIONS[what]),)
    return GraphOp(like.name, kind, tuple(inputs), params, outputs, like.package, like.origin)


def scaling(edit: Edit, op: GraphOp) -> Scaling | None:
    """``op`` as a product with, or sum of, constants; None for any other op, and for quantized tensors."""
    x, factor, term = op.inputs[0] if op.inputs else None, None, None
    what = operation(op)
    if op.op == "Batchnorm":
        factor = edit.constant(op.inputs[1])
        term = edit.constant(op.inputs[2]) if len(op.inputs) > 2 else None
        if factor is None or (len(op.inputs) > 2 and op.inputs[2] is not None and term is None):
            return None
    elif what in ("ADD", "SUBTRACT", "MULTIPLY", "DIVIDE"):
        constants = [edit.constant(t) for t in op.inputs]
        if (constants[0] is None) == (constants[1] is None):
            return None
        first = constants[0] is not None
        x = op.inputs[first]
        read = _read(what, first, np.asarray(constants[not first], np.float64))
        if read is None:
            return None
        factor, term = read
    if x is None or (factor is None and term is None) or not _real(edit, x, op.outputs[0]):
        return None
    wide = [None if c is None else np.asarray(c, np.float64) for c in (factor, term)]
    return Scaling(op, x, op.outputs[0], *wide)


def _read(what: str, first: bool, c: Array) -> tuple[Array | None, Array | None] | None:
    """The factor and the term of an operation with ``c``, which is the first operand or the second."""
    if what == "ADD":
        return None, c
    if what == "MULTIPLY":
        return c, None
    if what == "SUBTRACT":
        return (np.asarray(-1.0), c) if first else (None, -c)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1.0 / c
    return (inverse, None) if not first and np.isfinite(inverse).all() else None


def _real(edit: Edit, x: str, y: str) -> bool:
    a, b = edit.tensors[x], edit.tensors[y]
    return a.dtype == b.dtype and a.dtype in FLOATS and a.shape == b.shape and a.type != "STATIC"


@dataclass(frozen=True)
class Along:
    """Values that vary along at most one axis: one per element of ``axis``, or (``axis`` None) a single one."""

    axis: int | None
    values: Array

    def over(self, size: int) -> Array:
        """The values broadcast to ``size`` elements."""
        return np.broadcast_to(self.values.ravel(), (size,))


def along(values: Array, rank: int) -> Along | None:
    """``values``, which broadcast to ``rank`` dimensions, along the only axis on which they vary; None if there are several."""
    shape = (1,) * (rank - values.ndim) + values.shape
    wide = [i for i, d in enumerate(shape) if d != 1]
    if len(wide) > 1:
        return None
    return Along(wide[0] if wide else None, values.ravel())


#: The factor and the term of a scaling.
Parts = tuple[Along | None, Along | None]


def along_one(s: Scaling, rank: int) -> Parts | None:
    """The factor and the term along one axis, the same for both; None if there are several."""
    factor = None if s.factor is None else along(s.factor, rank)
    term = None if s.term is None else along(s.term, rank)
    if (s.factor is not None and factor is None) or (s.term is not None and term is None):
        return None
    axes = {p.axis for p in (factor, term) if p is not None and p.axis is not None}
    return (factor, term) if len(axes) <= 1 else None


def axis_of(parts: Parts) -> int | None:
    """The axis along which the parts vary; None for single numbers."""
    return next((p.axis for p in parts if p is not None and p.axis is not None), None)


def axis_before(edit: Edit, op: GraphOp, axis: int) -> int | None:
    """The input axis of a Transpose or Reshape that becomes ``axis`` of its output; None if there is none."""
    return _axis(edit, op, axis, back=True)


def axis_behind(edit: Edit, op: GraphOp, axis: int) -> int | None:
    """The output axis of a Transpose or Reshape that comes from ``axis`` of its input; None if there is none."""
    return _axis(edit, op, axis, back=False)


#: Ops that may move an axis to another place.
TURNS = ("Transpose", "Reshape")


def _axis(edit: Edit, op: GraphOp, axis: int, back: bool) -> int | None:
    if op.op == "Transpose":
        perm = [int(p) for p in parameter(op, "perm")]
        return perm[axis] if back else perm.index(axis)
    x, y = edit.tensors[op.inputs[0] or ""].shape, edit.tensors[op.outputs[0]].shape
    here, there = (y, x) if back else (x, y)
    before = math.prod(here[:axis])
    return next((i for i, d in enumerate(there) if d == here[axis] and math.prod(there[:i]) == before), None)


def rounded(values: Array, dtype: str) -> Array | None:
    """``values`` as an array of a float type; None if one is out of its range."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        made = np.asarray(values).astype(np.float16 if dtype == "f16" else np.float32)
    return made if np.isfinite(made).all() else None


def static(edit: Edit, base: str, data: Array, dtype: str) -> GraphTensor:
    """A constant with these numbers, not yet added to the graph."""
    return GraphTensor(
        edit.fresh(base), dtype, tuple(data.shape), "STATIC", np.ascontiguousarray(data).reshape(data.shape)
    )
