"""The surroundings of a node in its program, which a workaround gets besides the op."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, runtime_checkable

from opdb.runtime.forms import LoweredOp
from opdb.runtime.tensors import TensorRef


@runtime_checkable
class Surroundings(Protocol):
    """A node's place in its program.  Views of nodes in a program have these methods too."""

    def between_views(self) -> bool:
        """True if views before and after the node mix its rows with its columns, or split the columns on both sides."""

    def read_in_ranks(self) -> Container[int]:
        """The ranks of the results, and of the results of the nodes that read them directly or through views."""

    def shown(self) -> Collection[tuple[int, ...]]:
        """The shapes in which views show the results, also after permutations, sums, and products by a factor."""

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        """The constant behind ``t``, if at most one dimension has several elements; otherwise None.

        Returns the static tensor that ``t`` is or shows through views, or ``t`` itself if ops compute it from constants alone.
        """


class Nowhere:
    """The surroundings of a node without a program: nothing is known outside the node."""

    def between_views(self) -> bool:
        return False

    def read_in_ranks(self) -> Container[int]:
        return frozenset()

    def shown(self) -> Collection[tuple[int, ...]]:
        return ()

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static else None


def surroundings_of(view: Any) -> Surroundings:
    """The view itself if it is of a node in a program, else Nowhere."""
    kind: Any = type(view)
    return view if _in_a_program(kind) else Nowhere()


@cache
def _in_a_program(kind: type) -> bool:
    return issubclass(kind, Surroundings)  # slow for a protocol


@dataclass(frozen=True)
class Facts:
    """``number`` differs from call to call within a node; it goes into the names of tensors between ops."""

    surroundings: Surroundings
    number: int = 0


#: Returns the ops that replace an op; None if the workaround has no other form of it.
Workaround = Callable[[LoweredOp, Facts], Sequence[LoweredOp] | None]
#: Maps the ops of all nodes of a graph, in the order of execution, to the new ops of the nodes that change.
InProgram = Callable[[Mapping[str, Sequence[LoweredOp]]], Mapping[str, Sequence[LoweredOp]]]
