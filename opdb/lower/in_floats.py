"""Computes a node with quantized tensors in floating point: Dequantizes before it, and Quantizes after it.

PyTorch's quantized module computes the same.  This is the last resort: a form with quantized tensors needs fewer ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.lower.wrapping import PER_TENSOR, WrappedView
from opdb.runtime.forms import Lowered, LoweredOp, NodeView
from opdb.runtime.per_channel import floats
from opdb.runtime.tensors import Rejection, TensorRef

DTYPE = "f32"
#: The suffix that this adds to the name of the floating-point form.
IN_FLOATS = "in floats"


class InFloats(WrappedView):
    """``view`` as builders of floating point see it.

    ``layouts``: results change their layout before they are quantized, for targets that do not move stored integers; otherwise
    after, when they are smaller.
    """

    def __init__(self, view: NodeView, *, layouts: bool = False) -> None:
        super().__init__(view)
        self.layouts = layouts
        self._read: dict[str, TensorRef] = {}
        self._written: dict[str, TensorRef] = {}
        self.changed = False  # True once a builder was given something else than ``view`` gives

    def arg(self, name: str) -> Any:
        value = self._view.arg(name)
        if isinstance(value, (list, tuple)):
            return [self._operand(v) for v in value]
        return self._operand(value)

    def results(self) -> Sequence[TensorRef]:
        return [
            self._stand_in(f"float_result{i}", t, self._written) for i, t in enumerate(self._view.results())
        ]

    def around(self, lowered: Lowered) -> Lowered:
        """Adds the ops before and after ``lowered``, a form of this view.  Raises Rejection if it cannot be done."""
        if not self.changed:
            raise Rejection("no tensor of the node is quantized")
        used = {t.local for op in lowered.ops for t in op.inputs if t is not None}
        if used & set(self._written):
            raise Rejection("an op reads a result, which is quantized")
        before = [
            _converted("Dequantize", t, self._float(name, t))
            for name, t in self._read.items()
            if name in used
        ]
        made, after = [], []
        for op in lowered.ops:
            outputs = []
            for t in op.outputs:
                quantized = None if t.local is None else self._written.get(t.local)
                if quantized is not None and self.layouts:
                    source = replace(t, shape=t.base_shape, transforms=())
                    after.append(_converted("Quantize", source, quantized))
                elif quantized is not None:
                    to = replace(quantized, shape=t.shape, transforms=t.transforms)
                    t = replace(t, base_shape=t.shape, transforms=())
                    after.append(_converted("Quantize", t, to))
                outputs.append(t)
            made.append(replace(op, outputs=tuple(outputs)))
        return replace(lowered, ops=(*before, *made, *after))

    def _operand(self, value: Any) -> Any:
        if not (isinstance(value, TensorRef) and BY_SHORT[value.dtype].quantized):
            return value
        self.changed = True
        if value.static:
            return floats(value)
        return self._stand_in(f"float_{_name(value)}", value, self._read)

    def _stand_in(self, name: str, t: TensorRef, known: dict[str, TensorRef]) -> TensorRef:
        if not BY_SHORT[t.dtype].quantized:
            return t
        if t.encoding != PER_TENSOR or t.transforms:
            raise Rejection(f"a tensor with the encoding {t.encoding}")
        known[name] = t
        self.changed = True
        return self._float(name, t)

    def _float(self, name: str, t: TensorRef) -> TensorRef:
        return TensorRef(t.shape, DTYPE, local=name, base_shape=t.shape)


def _converted(op: str, source: TensorRef, result: TensorRef) -> LoweredOp:
    return LoweredOp(op, (source,), (), (result,), ("x", "y"))


def _name(t: TensorRef) -> str:
    """The name of a tensor of the graph; e.g. conv2d_0."""
    return "_".join(map(str, t.key)) if isinstance(t.key, tuple) else str(t.key)
