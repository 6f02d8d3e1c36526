"""Functions of one tensor: chains of elementwise ops whose other inputs are numbers, and the functions that they compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.core.graph import GraphOp
from opdb.lower.passes.arithmetic import FLOATS, Array, operation, single
from opdb.lower.passes.edit import Edit, parameter

#: A function of an op's inputs.
Function = Callable[..., Array]
#: The maximum number of ops in a region; erf alone has 21.
LONGEST = 40

PAIRS: Mapping[str, Function] = {
    "ADD": np.add,
    "SUBTRACT": np.subtract,
    "MULTIPLY": np.multiply,
    "DIVIDE": np.divide,
    "MAXIMUM": np.maximum,
    "MINIMUM": np.minimum,
    "POWER": np.power,
}
SINGLES: Mapping[str, Function] = {
    "ElementWiseAbs": np.abs,
    "ElementWiseExp": np.exp,
    "ElementWiseNeg": np.negative,
    "ElementWiseRsqrt": lambda x: 1.0 / np.sqrt(x),
    "ElementWiseSign": np.sign,
    "ElementWiseSquareRoot": np.sqrt,
    "Relu": lambda x: np.maximum(x, 0.0),
    "Relu6": lambda x: np.clip(x, 0.0, 6.0),
    "Sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "Tanh": np.tanh,
}


@dataclass(frozen=True)
class Region:
    """Ops in the order of execution that read only ``x`` and numbers; the last one makes ``y``.

    Nothing else reads the results of the others.
    """

    ops: tuple[GraphOp, ...]
    x: str
    y: str

    def values(self, edit: Edit, x: Array) -> Array:
        """Evaluates the ops on the values ``x``, in double precision."""
        held: dict[str, Array] = {self.x: x}
        with np.errstate(all="ignore"):
            for op in self.ops:
                function = function_of(op)
                assert function is not None
                read = [held[t] if t in held else _number(edit, t) for t in op.inputs if t is not None]
                held[op.outputs[0]] = function(*read)
        return held[self.y]


def function_of(op: GraphOp) -> Function | None:
    """The elementwise function of an op; None for any other op."""
    what = operation(op)
    if what is not None:
        return PAIRS[what]
    if op.op == "ElementWiseNeuron":
        return _neuron(op)
    if op.op == "ReluMinMax":
        return _clip(op)
    return SINGLES.get(single(op))


def _neuron(op: GraphOp) -> Function | None:
    kinds = {4: "Relu", 6: "Sigmoid", 8: "Tanh"}
    number = parameter(op, "operation")
    if number == 5:
        return _clip(op)
    if number == 2:
        slope, at = float(parameter(op, "alpha", 0.2)), float(parameter(op, "beta", 0.5))
        return lambda x: np.clip(slope * x + at, 0.0, 1.0)
    return SINGLES.get(kinds.get(number, ""))


def _clip(op: GraphOp) -> Function:
    low, high = float(parameter(op, "min_value")), float(parameter(op, "max_value"))
    return lambda x: np.clip(x, low, high)


def regions(edit: Edit, last: GraphOp, place: Mapping[str, int]) -> Iterator[Region]:
    """Yields the regions that end with ``last``, the smallest first.  ``place``: the position of each op in execution order, by name."""
    ops: dict[str, GraphOp] = {}
    waiting = {last.outputs[0]}
    while len(ops) < LONGEST:
        makers = [m for t in waiting if (m := edit.maker(t)) is not None]
        op = max(makers, key=lambda m: place[m.name], default=None)
        if op is None or not _of_elements(edit, op):
            return
        y = op.outputs[0]
        if op is not last and not (edit.inner(y) and all(r.name in ops for r in edit.readers(y))):
            return
        ops[op.name] = op
        waiting.remove(y)
        waiting |= {t for t in op.inputs if t is not None and edit.tensors[t].type != "STATIC"}
        if len(waiting) == 1 and len(ops) > 1:
            yield Region(tuple(reversed(ops.values())), next(iter(waiting)), last.outputs[0])


def _of_elements(edit: Edit, op: GraphOp) -> bool:
    y = edit.tensors[op.outputs[0]]
    if function_of(op) is None or y.dtype not in FLOATS:
        return False
    for t in op.inputs:
        held = edit.tensors[t or ""]
        fits = held.shape == y.shape
        if held.type == "STATIC":
            fits = held.data is not None and np.asarray(held.data).size == 1
        if held.dtype != y.dtype or not fits:
            return False
    return True


def _number(edit: Edit, tensor: str) -> Any:
    return np.asarray(edit.tensors[tensor].data, np.float64).reshape(())
