"""Views around a product that HTP's compiler gets wrong (opdb.lower.workarounds.htp.products).

It does so if they mix rows with columns, or split the columns on both sides.  Harmless are rows of one dimension, apart from
leading dimensions of size 1, that each view keeps, with columns that at most one side splits, as attention's heads do:
``benchmarks/htp_views.py --heads``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from math import prod

#: Dimensions may be symbolic.
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Seen:
    """A tensor of ``shape`` that other nodes see, through views, in the shape ``outside``."""

    outside: Shape
    shape: Shape

    @property
    def changes_columns(self) -> bool:
        return self.outside[-1:] != self.shape[-1:]

    def rows(self) -> Shape | None:
        """The rows of ``shape`` as they are outside; None if a view mixes them with columns."""
        if not self.changes_columns:
            return _without_ones(self.outside[:-1])
        at = self._first_column()
        return None if at is None else _without_ones(self.outside[:at])

    def splits_columns(self) -> bool:
        """True if the columns of ``shape`` are several dimensions outside, or one of another size."""
        return self.changes_columns and self._first_column() is not None

    def _first_column(self) -> int | None:
        """The index of the dimension outside from which on all dimensions are columns of ``shape``."""
        places = reversed(range(len(self.outside)))
        return next((i for i in places if prod(self.outside[i:]) == prod(self.shape[-1:]) > 1), None)


def wrong_between(shape: Shape, first: Sequence[Seen], others: Sequence[Seen], after: Sequence[Seen]) -> bool:
    """True if HTP computes a node of ``shape`` wrong between these views.

    ``first``: views of its first operand; ``others``: of the other operands; ``after``: of its result.
    """
    before = [*first, *others]
    if not before or not after or not any(view.changes_columns for view in (*before, *after)):
        return False
    if any(view.changes_columns for view in others):
        return True
    if not all(isinstance(d, int) for view in first for d in view.outside):
        return True
    rows = _without_ones(shape[:-1])
    if {view.rows() for view in (*first, *after)} != {rows} or len(rows) > 1:
        return True
    return any(view.splits_columns() for view in first) and any(view.splits_columns() for view in after)


def _without_ones(shape: Shape) -> Shape:
    """``shape`` without its leading dimensions of size 1."""
    return tuple(dropwhile(lambda d: d == 1, shape))
