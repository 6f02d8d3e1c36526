"""Forms of a node with other tensors than its own, and the ops around them that make up the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from opdb.runtime.forms import Form, Lowered, NodeView
from opdb.runtime.tensors import TensorRef

#: The encoding with one scale for a whole tensor, which Dequantize, Quantize and Convert take here.
PER_TENSOR = "SCALE_OFFSET"


class Wrapping(NodeView, Protocol):
    """A view of a node with other tensors; ``around`` adds the ops around a form of it, or raises Rejection."""

    def around(self, lowered: Lowered) -> Lowered: ...


@dataclass(frozen=True)
class WrappedForm:
    """A form of a ``Wrapping`` view, with the ops around it.  ``how`` is added to its name, e.g. "in floats"."""

    form: Form
    how: str

    @property
    def name(self) -> str:
        return f"{self.form.name} {self.how}"

    @property
    def ops(self) -> tuple[str, ...]:
        return self.form.ops

    @property
    def avoids(self) -> tuple[str, ...]:
        return self.form.avoids

    def build(self, view: Wrapping) -> Lowered:
        return view.around(replace(self.form.build(view), form=self.name))


class WrappedView:
    """The parts of a view that ops around it leave as they are; conversions lie between the node and its neighbors."""

    def __init__(self, view: NodeView) -> None:
        self.target, self.name = view.target, view.name
        self._view = view

    def results(self) -> Sequence[TensorRef]:
        return self._view.results()

    def result(self, index: int) -> TensorRef:
        return self.results()[index]

    def result_used(self, index: int) -> bool:
        return self._view.result_used(index)

    def between_views(self) -> bool:
        return False

    def read_in_ranks(self) -> set[int]:
        return {len(t.shape) for t in self._view.results()}

    def shown(self) -> set[tuple[int, ...]]:
        return set()

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static else None
