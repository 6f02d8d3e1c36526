"""Lowers one torch node to QNN ops that a target accepts, or gives every reason why not.

Takes the cheapest candidate of an ATen target whose guard holds and whose ops the generated validators accept
(``opdb.lower.candidates``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.judge.errata.policy import WARN, active
from opdb.judge.errata.records import RECORDS
from opdb.judge.nearest import Variant, nearest
from opdb.lower.candidates import ONNX_NODE, cheapest, forms, mapped, unmapped_reason
from opdb.lower.conversions import into_fewer_bits
from opdb.lower.cost import Prices
from opdb.lower.in_floats import IN_FLOATS, InFloats
from opdb.lower.in_steps_of_x import IN_STEPS_OF_X, InStepsOfX
from opdb.lower.obey import between_conversions, obeyed
from opdb.lower.prices import prices_of
from opdb.lower.ranges import unranged
from opdb.lower.reasons import mattering
from opdb.lower.violations import REMEMBERED, erratum_reason, hits, judge, refuses, tensors, violations
from opdb.lower.workarounds import OF_VALUES, Surroundings, surroundings_of
from opdb.lower.wrapping import WrappedForm
from opdb.runtime.checks import Undecidable
from opdb.runtime.forms import Form, Lowered, NodeView, Reason, Rejected
from opdb.runtime.tensors import Rejection, empty

#: A further reason to refuse a form, besides the validators and errata, e.g. no C kernel; empty if there is none.
Refusal = Callable[[Lowered], str]
#: The suffix that a form which reads narrower weights in 8 bits adds to the name of the form itself.
IN_8_BITS = "in 8 bits"


def _accepted(lowered: Lowered) -> str:
    return ""


def lower(
    view: NodeView, target: Target, prices: Prices | None = None, refusal: Refusal = _accepted
) -> Lowered | Rejected:
    """The cheapest candidate of ``view`` that ``target`` accepts; its ``notes`` say why earlier ones were refused.

    A quantized node is tried in its own types first, then with the ops around it that ``_ways`` names.
    ``prices``: compares candidates; the default for ``target`` comes from opdb.lower.prices.
    """
    if not mapped(view.target):
        unread = view.target == ONNX_NODE
        return Rejected((Reason("", "", view.arg("reason")) if unread else unmapped_reason(view.target),))
    if (narrower := into_fewer_bits(view)) is not None:
        return Rejected((narrower,))
    prices = prices or prices_of(view.target, target)
    reasons: list[Reason] = []
    for seen, how in _ways(view):
        trial = _Trial(seen, target, refusal)
        candidates = [WrappedForm(form, how) if how else form for form in forms(view.target)]
        lowered, found = cheapest(candidates, trial.attempt, prices, trial.doubts)
        if not how or (isinstance(seen, InFloats) and not seen.layouts and seen.changed):
            reasons += found
        if lowered is not None:
            return _with_notes(lowered, reasons, target)
    return Rejected(mattering(reasons))


def _ways(view: NodeView) -> Iterator[tuple[NodeView, str]]:
    """Yields ``view``, then views of the same node with other types, each with the suffix for the names of its forms."""
    yield view, ""
    yield InStepsOfX(view), IN_STEPS_OF_X
    wide: NodeView | None = view.in_8_bits() if hasattr(view, "in_8_bits") else None
    if wide is not None:
        yield wide, IN_8_BITS
    floats = InFloats(wide or view)
    yield floats, IN_FLOATS
    if floats.changed:
        yield InFloats(wide or view, layouts=True), IN_FLOATS


def _with_notes(lowered: Lowered, reasons: list[Reason], target: Target) -> Lowered:
    """Adds the notes; an erratum that made an earlier form lose counts as avoided, too."""
    lost = [r.rule for r in reasons if r.rule in RECORDS and active(r.rule, target)]
    lost = [erratum for erratum in lost if erratum not in lowered.warned]
    return replace(lowered, notes=tuple(reasons), avoided=tuple(dict.fromkeys((*lost, *lowered.avoided))))


@dataclass(frozen=True)
class _Trial:
    """Tries forms on one view of a node."""

    view: Any
    target: Target
    refusal: Refusal = _accepted

    @cached_property
    def surroundings(self) -> Surroundings:
        return surroundings_of(self.view)

    def attempt(self, form: Form | WrappedForm) -> tuple[Lowered | None, list[Reason]]:
        """The form as the target accepts it, or None; and the reasons, which are warnings if it is accepted."""
        guard = f"{form.name}.M_{self.view.target}"
        try:
            built = form.build(self.view)
            lowered = self._obeyed(form, built)
        except Rejection as reason:
            return None, [Reason(form.name, guard, str(reason))]
        except Undecidable as reason:
            return None, [Reason(form.name, guard, f"the mapping cannot be worked out: {reason}")]
        reasons = list(self._reasons(form, built, lowered))
        if any(not r.warning for r in reasons):
            return None, reasons
        if why := self.refusal(lowered):
            return None, [*reasons, Reason(form.name, "", why)]
        warned = dict.fromkeys(r.rule for r in reasons if r.rule in RECORDS)
        return replace(lowered, warned=tuple(warned)), reasons

    def _obeyed(self, form: Form | WrappedForm, built: Lowered) -> Lowered:
        """The ops after workarounds.  Raises Rejection for an empty tensor, and for one whose range is not known."""
        avoids = set(form.avoids)
        lowered = obeyed(built, self.target, self.surroundings, lambda op: hits(op, self.target) - avoids)
        for op in lowered.ops:
            for slot, t, _ in tensors(op):
                if 0 in t.shape:
                    raise empty(f"{op.op}: {slot}", t.shape)
        if between := unranged(lowered):
            raise Rejection(f"{between} lies between two ops and its range is not known; quantize the parts")
        return lowered

    def _reasons(self, form: Form | WrappedForm, built: Lowered, lowered: Lowered) -> Iterator[Reason]:
        kept_away = {e for e in lowered.avoided if RECORDS[e].workaround in OF_VALUES}.union(form.avoids)
        yield from (r for r in judge(lowered, self.target) if r.rule not in kept_away)
        yield from (erratum_reason(form.name, e, WARN) for e in lowered.warned)
        if isinstance(form, WrappedForm) and form.how == IN_FLOATS:
            for found in between_conversions(built, lowered, self.target):
                yield erratum_reason(form.name, *found)

    def doubts(self, lowered: Lowered) -> int:
        """The number of errata left in it that the policy avoids only by preferring other forms."""
        return sum(active(erratum, self.target) for erratum in lowered.warned)


def fitting(view: NodeView, target: Target) -> tuple[Lowered, ...]:
    """All candidates of ``view`` that ``target`` accepts and that have the fewest doubts, in the order of the family."""
    trial = _Trial(view, target)
    tried = (trial.attempt(form)[0] for form in forms(view.target))
    found = [(trial.doubts(lowered), lowered) for lowered in tried if lowered is not None]
    fewest = min((doubts for doubts, _ in found), default=0)
    return tuple(lowered for doubts, lowered in found if doubts == fewest)


def nearest_forms(view: NodeView, target: Target) -> Iterator[tuple[str, str, Variant]]:
    """Yields what would make ``target`` accept the forms of a rejected node: (form, op, the op's nearest variant).

    Skips forms whose guard refuses the node, or that have an op without an accepted variant.
    """
    for form in forms(view.target):
        try:
            ops = form.build(view).ops
        except (Rejection, Undecidable):
            continue
        refused = [op for op in ops if any(refuses(v, target) for v in violations(op.config(), target))]
        found = [(form.name, op.op, _nearest(op.config(), target)) for op in refused]
        if all(v is not None for _, _, v in found):
            yield from ((form_name, op, v) for form_name, op, v in found if v is not None)


@lru_cache(REMEMBERED)
def _nearest(config: OpConfig, target: Target) -> Variant | None:
    return nearest(config, target, finalized=True)
