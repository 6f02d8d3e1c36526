"""Finds the nearest op config that a target accepts: what to change in one that it refuses.

    variant = nearest(config, Target("HTP", "SM8650"))
    variant.text      # e.g. y f16 instead of f32

This code knows no rule: it tries changes, smallest first, and the generated validator tells which one is
accepted.  At most two are combined.  They are what an engineer would change: parameters, data types,
encodings, the shapes of outputs.  If a target limits the number of dimensions, the same data is tried with another
number (``reshape``) before another kind of numbers.  If none of that helps (a tensor is missing, the data has another
shape), an accepted config is built from a sample of the spec (``rebuild``); if its data differs from that of the refused
one, ``text`` tells the conditions on the data instead of the sample's sizes.  Only Python does this; the C side returns
the violations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.judge.errata.policy import excludes
from opdb.judge.nearest.changes import Change, changes, other_data
from opdb.judge.nearest.rebuild import rebuilt
from opdb.judge.nearest.reshape import reshaped
from opdb.judge.nearest.rows import ANOTHER_KIND, far
from opdb.judge.nearest.single_changes import Move, moves
from opdb.judge.validate import validator
from opdb.runtime.checks import Violation

__all__ = ["Change", "Variant", "nearest"]

#: The most configs that are tried with one change, and with two.  30 to 60 us each.
SINGLES, PAIRS = 300, 200
#: The most first changes leaving the same rules broken that are followed by a second one.
ALIKE = 3


#: The begin of an advice: no small change helps.
ADVICE = "only with other data: "


@dataclass(frozen=True)
class Variant:
    """An accepted config, and how it differs from the one that was refused."""

    config: OpConfig
    changes: tuple[Change, ...]
    advice: str = ""  # the conditions to meet, if ``config`` has other data than the refused one

    @property
    def text(self) -> str:
        """The advice, or all changes on one line; e.g. axes [2] instead of [1, 2], gamma offset 0 instead of 3."""
        return self.advice or ", ".join(c.text for c in self.changes)

    def json(self) -> dict[str, Any]:
        """``text`` and the changes, each with ``path``, ``slot``, ``from`` and ``to``."""
        return {"text": self.text, "changes": [c.json() for c in self.changes]}


def nearest(config: OpConfig, target: Target | None = None, *, finalized: bool = False) -> Variant | None:
    """The accepted config with the fewest and smallest changes; None if it is accepted, or the target takes no sample.

    Changed tensors and parameters are counted.  Among equals the one that a violation names comes first, then
    output shapes, encodings, constness, parameters, data types; then the closest value.  ``finalized``:
    the library must also finalize graphs of it.  Raises OpdbError as ``check`` does.
    """
    target = (target or Target()).spelled()
    module = validator(config.op)
    if target.backend is not None and target.backend not in module.DOCUMENTED:
        return None
    bare = _without_data(config)
    search = _Search(module, target, finalized)
    broken = search.broken(bare)
    if not broken:
        return None
    found = search.run(bare)
    if (found is None or _other_numbers(bare, found)) and any(".rank = " in v.got for v in broken):
        found = reshaped(module, bare, lambda c: not search.broken(c)) or found
    advice = ""
    if found is None and (found := rebuilt(module, target, bare, finalized)) is not None:
        advice = _advice(broken) * other_data(changes(bare, found, module.SIGNATURE))
    if found is None:
        return None
    whole = _with_data(found, config)
    return Variant(whole, changes(config, whole, module.SIGNATURE), advice)


def _other_numbers(old: OpConfig, new: OpConfig) -> bool:
    """True if a tensor has another kind of numbers; e.g. 8-bit ones instead of floats."""
    pairs = zip((*old.inputs, *old.outputs), (*new.inputs, *new.outputs), strict=True)
    return any(far(a.dtype, b.dtype) >= ANOTHER_KIND for a, b in pairs)


def _advice(broken: Sequence[Violation]) -> str:
    """The conditions to meet, in words, and the advice to merge dimensions if their number is limited."""
    of_data = [v for v in broken if ".rank = " in v.got or ".shape = " in v.got] or broken
    told = [v for v in of_data if not v.path.startswith("outputs.")] or of_data
    limited = any(" takes " in v.sentence and "at most" in v.sentence for v in told)
    said = dict.fromkeys(v.sentence for v in told)
    return ADVICE + "; ".join([*said, *["merge dimensions"] * limited])


class _Search:
    def __init__(self, module: Any, target: Target, finalized: bool) -> None:
        self.module, self.target, self.finalized = module, target, finalized
        self.context = target.context()
        self.tried = 0

    def broken(self, config: OpConfig) -> tuple[Violation, ...]:
        self.tried += 1
        found = self.module.validate(config, self.context)
        return tuple(v for v in found if excludes(v, self.target) and (self.finalized or not v.warning))

    def moves(self, config: OpConfig, broken: tuple[Violation, ...]) -> Iterator[Move]:
        return moves(self.module, self.context, config, broken)

    def run(self, config: OpConfig) -> OpConfig | None:
        broken = self.broken(config)
        wrong = {v.rule for v in broken}
        helpful: list[tuple[Move, tuple[Violation, ...]]] = []
        cured: set[str] = set()
        for move in self.moves(config, broken):
            left = self.broken(move.config)
            if not left:
                return self.closest(move)
            if gone := wrong - {v.rule for v in left}:
                helpful.append((move, left))
                cured |= gone
            if self.tried > SINGLES:
                break
        # Two changes cannot cure what no single one does; but if types or parameters are wrong, only those were changed.
        partial = wrong & {
            f"{config.op}.{r}" for r in ("PARAMS", "UNKNOWN_PARAMS", f"TYPES_{self.context.backend}")
        }
        return self.pair(helpful) if partial or cured == wrong else None

    def pair(self, helpful: list[tuple[Move, tuple[Violation, ...]]]) -> OpConfig | None:
        """The best pair of changes of which the first alone cures a rule."""
        best: tuple[int, Move] | None = None
        alike: Counter[tuple[str, ...]] = Counter()
        self.tried = 0
        for first, left in helpful:
            rules = tuple(v.rule for v in left)
            alike[rules] += 1
            if alike[rules] > ALIKE:
                continue
            for second in self.moves(first.config, left):
                entries = first.entries + second.entries
                if self.tried > PAIRS or (best is not None and entries >= best[0]):
                    break
                if not self.broken(second.config):
                    best = entries, second
            if self.tried > PAIRS or (best is not None and best[0] <= 2):
                break
        return None if best is None else self.closest(best[1])

    def closest(self, move: Move) -> OpConfig:
        """Bisects from the accepted number toward the refused one; returns the accepted config closest to it."""
        if move.between is None:
            return move.config
        refused, accepted, make = move.between
        best = move.config
        while abs(refused - accepted) > 1:
            middle = (refused + accepted) // 2
            config = make(middle)
            if self.broken(config):
                refused = middle
            else:
                accepted, best = middle, config
        return best


def _without_data(config: OpConfig) -> OpConfig:
    """``config`` without the data of its tensors, which may be large and which validators do not read."""
    return replace(
        config,
        inputs=tuple(replace(t, data=None) for t in config.inputs),
        outputs=tuple(replace(t, data=None) for t in config.outputs),
    )


def _with_data(config: OpConfig, old: OpConfig) -> OpConfig:
    """``config`` with the data of ``old`` in the inputs whose elements did not change."""

    def filled(now: TensorConfig, was: TensorConfig | None) -> TensorConfig:
        same = was is not None and (now.dtype, now.shape, now.quant) == (was.dtype, was.shape, was.quant)
        return replace(now, data=was.data) if was is not None and same else now

    pairs = zip_longest(config.inputs, old.inputs[: len(config.inputs)])
    return replace(config, inputs=tuple(filled(now, was) for now, was in pairs))
