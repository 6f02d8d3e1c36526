"""Ops after the workarounds for the emulator's errata, for tests without a library."""

from __future__ import annotations

from collections.abc import Collection

from opdb.catalog.targets.target import Target
from opdb.judge.errata.policy import active
from opdb.lower.obey import obeyed
from opdb.lower.violations import hits
from opdb.lower.workarounds import Nowhere, Surroundings
from opdb.runtime.forms import Lowered, LoweredOp
from opdb.runtime.tensors import TensorRef

EMULATOR = Target("HTP", "SM8650", execution="emulator")


class Place(Nowhere):
    """Surroundings: keys of known tensors besides static ones, and the ranks of the results of the node's readers."""

    def __init__(
        self, known: Collection[object] = (), ranks: Collection[int] = (), views: bool = False
    ) -> None:
        self._known, self._ranks, self._views = known, ranks, views

    def between_views(self) -> bool:
        return self._views

    def read_in_ranks(self) -> Collection[int]:
        return self._ranks

    def constant_source(self, t: TensorRef) -> TensorRef | None:
        return t if t.static or t.key in self._known else None


def obeying(
    *ops: LoweredOp, target: Target = EMULATOR, around: Surroundings | None = None
) -> tuple[LoweredOp, ...]:
    return obeyed(Lowered("form", ops), target, around or Nowhere(), lambda op: hits(op, target)).ops


def avoided(op: LoweredOp) -> set[str]:
    """The op's errata that the emulator's policy avoids."""
    return {e for e in hits(op, EMULATOR) if active(e, EMULATOR)}
