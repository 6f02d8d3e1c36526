"""Computes a node that moves or selects stored integers in the steps of x, then converts to the encoding of its result.

QNN's ops of that kind copy integers, so x and y have the same type and encoding (``share`` in the specs' ``quant`` sections).
PyTorch's quantized modules may give them different ones, e.g. 16 bits and 8.  A Convert is as exact as PyTorch's second
quantization, and needs no floating point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.generated.constants.quant import RULES
from opdb.lower.wrapping import PER_TENSOR, WrappedView
from opdb.runtime.forms import Lowered, LoweredOp, NodeView
from opdb.runtime.tensors import Rejection, TensorRef, stored_range

#: The suffix that this adds to the name of a form.
IN_STEPS_OF_X = "in steps of x"
#: PyTorch's name for the number that an operator writes.
FILL = "value"


class InStepsOfX(WrappedView):
    """``view`` with its results in the encoding of its first quantized operand that is not a constant."""

    def __init__(self, view: NodeView) -> None:
        super().__init__(view)
        self._x: TensorRef | None = None
        self._fill: float | None = None  # the value between the elements of x, e.g. around them by Pad
        self._written: dict[str, TensorRef] = {}

    @property
    def changed(self) -> bool:
        """True if a builder was given another encoding than ``view`` gives."""
        return bool(self._written)

    def arg(self, name: str) -> Any:
        value = self._view.arg(name)
        if name == FILL and isinstance(value, (int, float)):
            self._fill = float(value)
        for t in value if isinstance(value, (list, tuple)) else (value,):
            if self._x is None and _per_tensor(t) and not t.static:
                self._x = t
        return value

    def results(self) -> Sequence[TensorRef]:
        return [self._stand_in(f"moved{i}", t) for i, t in enumerate(self._view.results())]

    def around(self, lowered: Lowered) -> Lowered:
        """Adds the Converts after ``lowered``, a form of this view.

        Raises Rejection if nothing changes, or if results may have values that are not in x.
        """
        if not self.changed:
            raise Rejection("its results have the encoding of x")
        if self._fill is not None and self._x is not None:
            low, high = stored_range(self._x)
            if not low <= self._fill <= high:
                raise Rejection(f"{self._fill:g} lies beyond the range of x, {low:g} to {high:g}")
        if any(t.local in self._written for op in lowered.ops for t in op.inputs if t is not None):
            raise Rejection("an op reads a result, which has another encoding")
        made, after = [], []
        for op in lowered.ops:
            outputs = []
            for slot, t in zip(op.slots[len(op.inputs) :], op.outputs, strict=False):
                wanted = None if t.local is None else self._written.get(t.local)
                if wanted is not None:
                    if slot not in RULES[op.op].shared:
                        raise Rejection(f"{op.op} computes values that are not in x")
                    to = replace(wanted, shape=t.shape, transforms=t.transforms)
                    t = replace(t, base_shape=t.shape, transforms=())
                    after.append(LoweredOp("Convert", (t,), (), (to,), ("x", "y")))
                outputs.append(t)
            made.append(replace(op, outputs=tuple(outputs)))
        return replace(lowered, ops=(*made, *after))

    def _stand_in(self, name: str, t: TensorRef) -> TensorRef:
        x = self._x
        if x is None or not _per_tensor(t) or (t.dtype == x.dtype and t.quant == x.quant):
            return t
        if t.transforms:
            raise Rejection("a result that is seen in another layout")
        self._written[name] = t
        return TensorRef(t.shape, x.dtype, local=name, quant=x.quant, base_shape=t.shape)


def _per_tensor(t: Any) -> bool:
    return isinstance(t, TensorRef) and BY_SHORT[t.dtype].quantized and t.encoding == PER_TENSOR
