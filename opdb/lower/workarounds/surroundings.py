"""What a workaround is given besides the op: the surroundings of its node in the program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from opdb.runtime.forms import LoweredOp
from opdb.runtime.tensors import TensorRef


@runtime_checkable
class Surroundings(Protocol):
    """A node's place in its program.  Views of nodes that stand in a program have these methods too."""

    def between_views(self) -> bool:
        """Whether views before and behind the node mix its rows with its columns, or split the columns on both sides."""

    def read_in_ranks(self) -> Container[int]:
        """The ranks of the results, and of what the nodes that read them, or views of them, make."""

    def shown(self) -> Collection[tuple[int, ...]]:
        """The shapes in which views show the results, also behind permutations, sums, and products by a factor."""

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        """What is known of ``t`` before the program runs, where at most one dimension has several elements.

        The static tensor that it is or shows through views; ``t``, where ops make it of constants alone; otherwise None.
        """


class Nowhere:
    """The surroundings of a node of which only the node itself is known."""

    def between_views(self) -> bool:
        return False

    def read_in_ranks(self) -> Container[int]:
        return frozenset()

    def shown(self) -> Collection[tuple[int, ...]]:
        return ()

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static else None


@dataclass(frozen=True)
class Facts:
    """``number`` differs from call to call within a node: it goes into the names of tensors between ops."""

    surroundings: Surroundings
    number: int = 0


#: The ops that stand for an op; None where the workaround has no other form of it.
Workaround = Callable[[LoweredOp, Facts], Sequence[LoweredOp] | None]
#: The new ops of the nodes of a graph that change, from those of all, in the order of execution.
InProgram = Callable[[Mapping[str, Sequence[LoweredOp]]], Mapping[str, Sequence[LoweredOp]]]
