"""The sink of opdb.plugins.executorch.builder.sink without wrappers: its refusals, and the layout ops it would add."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ParamConfig
from opdb.lower.constant_encodings import encoded
from opdb.plugins.executorch.builder import layout
from opdb.plugins.executorch.builder.sink import Sink
from opdb.plugins.executorch.builder.view import FxNodeView
from opdb.plugins.executorch.builder.wrappers import add_param, dtype_of
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.tensors import Rejection, TensorRef


class DrySink(Sink):
    def __init__(self, view: FxNodeView, avoids: Callable[[str], bool]) -> None:
        super().__init__(None, view, {}, avoids)  # nothing here uses the visitor
        self.steps: list[LoweredOp] = []

    def steps_of(self, lowered: Lowered) -> list[LoweredOp]:
        """Returns the Transposes and Reshapes around the ops of ``lowered``.  Raises Rejection as ``Sink.realize`` does."""
        self.realize(lowered)
        return self.steps

    def operand(self, ref: TensorRef, into: Sequence[int] | None = None) -> Any:
        if ref.static:
            return self._constant(ref)
        if ref.local is None:
            source = self.view.source(ref)
            self._stored(source.meta["val"])
            if source.meta["val"].dtype == torch.int64 and source.op == "placeholder":
                self.castable(source.meta["val"])
        return self._transformed(None, ref, self._layout(ref))

    def _cast_instead(self, name: str, given: TensorRef | None, result: TensorRef) -> bool:
        """Checks the Reshape instead: the reasons against a Cast also apply to it."""
        return False

    def _read_rest(self, read: Collection[str]) -> None:
        """Does nothing: it would add a Reshape of an input, which QNN accepts."""

    def _result(self, ref: TensorRef) -> Any:
        self._stored(self.view.values()[self.view.index(ref)])

    def _stored(self, tensor: Any) -> None:
        layout.stored(tensor.shape, self.view.order)  # only to raise Rejection

    def _intermediate(self, ref: TensorRef, name: str, shape: Sequence[int]) -> Any:
        dtype_of(ref.dtype)

    def _constant(self, ref: TensorRef) -> Any:
        dtype_of(ref.dtype)
        if ref.key is None:
            if not ref.made:
                raise Rejection("a static tensor without data")
            if ref.fill is not None and BY_SHORT[ref.dtype].quantized:
                encoded(ref.dtype, (ref.fill,))
        elif (
            ref.quant is not None
            and ref.quant.axis is not None
            and any(s.kind == "reshape" for s in ref.transforms)
        ):
            raise Rejection(f"{self.view.source(ref).name} has an encoding per axis and cannot be reshaped")

    def _wrap(
        self,
        name: str,
        kind: str,
        inputs: list[Any],
        params: Sequence[ParamConfig],
        outputs: list[Any],
        package: str = "",
    ) -> None:
        for p in params:
            add_param(_NoOp, p)

    def _step(self, step: LoweredOp, wrapper: Any, result: Any) -> None:
        self.steps.append(step)
        super()._step(step, wrapper, result)


class _NoOp:
    """Accepts parameters and discards them."""

    @staticmethod
    def AddScalarParam(*_: Any) -> None: ...  # noqa: N802

    @staticmethod
    def AddTensorParam(*_: Any) -> None: ...  # noqa: N802
