"""Lowers one torch node to QNN ops that a target accepts, or gives every reason why not.

Takes the cheapest candidate of an ATen target whose guard holds and whose ops the generated validators accept
(``opdb.lower.candidates``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.judge import validate
from opdb.judge.errata.policy import IGNORE, WARN, active, excludes, policy, warning
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
from opdb.lower.workarounds import OF_VALUES, Nowhere, Surroundings
from opdb.lower.wrapping import WrappedForm
from opdb.runtime.checks import Undecidable, Violation
from opdb.runtime.direct import OWN as QNN
from opdb.runtime.forms import Form, Lowered, LoweredOp, NodeView, Reason, Rejected, layout_ops
from opdb.runtime.tensors import Rejection, TensorRef, empty

#: Rules of ops that HTP does not check and that no lowering may break: HTP would compute something else.
UNCHECKED = frozenset({"Reshape.C1"})
REMEMBERED = 1 << 14  # verdicts of op configs
#: A further reason to refuse a form, besides the validators and errata, e.g. no C kernel; empty if there is none.
Refusal = Callable[[Lowered], str]
#: The suffix that a form which reads narrower weights in 8 bits adds to the name of the form itself.
IN_8_BITS = "in 8 bits"
#: Caches whether a class of views has the methods of Surroundings, because issubclass is slow here.
_IN_A_PROGRAM: dict[type, bool] = {}


def lower(
    view: NodeView, target: Target, prices: Prices | None = None, refusal: Refusal = lambda lowered: ""
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
    doubts = partial(_doubts, target=target)
    reasons: list[Reason] = []
    for seen, how in _ways(view):
        surroundings = _surroundings(seen)

        def attempt(
            form: Form | WrappedForm, seen: NodeView = seen, surroundings: Surroundings = surroundings
        ) -> tuple[Lowered | None, list[Reason]]:
            return _attempt(form, seen, target, surroundings, refusal)

        candidates = [WrappedForm(form, how) if how else form for form in forms(view.target)]
        lowered, found = cheapest(candidates, attempt, prices, doubts)
        if not how or (isinstance(seen, InFloats) and not seen.layouts and seen.changed):
            reasons += found
        if lowered is not None:
            return _with_notes(lowered, reasons, target)
    return Rejected(tuple(dict.fromkeys(reasons)))


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


def fitting(view: NodeView, target: Target) -> tuple[Lowered, ...]:
    """All candidates of ``view`` that ``target`` accepts and that have the fewest doubts, in the order of the family."""
    surroundings = _surroundings(view)
    tried = (_attempt(form, view, target, surroundings)[0] for form in forms(view.target))
    found = [(_doubts(lowered, target), lowered) for lowered in tried if lowered is not None]
    fewest = min((doubts for doubts, _ in found), default=0)
    return tuple(lowered for doubts, lowered in found if doubts == fewest)


def _surroundings(view: Any) -> Surroundings:
    kind = type(view)
    if kind not in _IN_A_PROGRAM:
        _IN_A_PROGRAM[kind] = issubclass(kind, Surroundings)
    return view if _IN_A_PROGRAM[kind] else Nowhere()


def _doubts(lowered: Lowered, target: Target) -> int:
    """The number of errata left in it that the policy avoids only by preferring other forms."""
    return sum(active(erratum, target) for erratum in lowered.warned)


def _with_notes(lowered: Lowered, reasons: list[Reason], target: Target) -> Lowered:
    """Adds the notes; an erratum that made an earlier form lose counts as avoided, too."""
    lost = [r.rule for r in reasons if r.rule in RECORDS and active(r.rule, target)]
    lost = [erratum for erratum in lost if erratum not in lowered.warned]
    return replace(lowered, notes=tuple(reasons), avoided=tuple(dict.fromkeys((*lost, *lowered.avoided))))


def _attempt(
    form: Form | WrappedForm,
    view: Any,
    target: Target,
    surroundings: Surroundings,
    refusal: Refusal = lambda lowered: "",
) -> tuple[Lowered | None, list[Reason]]:
    guard = f"{form.name}.M_{view.target}"
    try:
        built = form.build(view)
        lowered = obeyed(built, target, surroundings, lambda op: hits(op, target) - set(form.avoids))
        for op in lowered.ops:
            for slot, t, _ in _tensors(op):
                if 0 in t.shape:
                    raise empty(f"{op.op}: {slot}", t.shape)
        if between := unranged(lowered):
            raise Rejection(f"{between} lies between two ops and its range is not known; quantize the parts")
    except Rejection as reason:
        return None, [Reason(form.name, guard, str(reason))]
    except Undecidable as reason:
        return None, [Reason(form.name, guard, f"the mapping cannot be worked out: {reason}")]
    kept_away = {e for e in lowered.avoided if RECORDS[e].workaround in OF_VALUES}
    reasons = [r for r in judge(lowered, target) if r.rule not in kept_away.union(form.avoids)]
    reasons += [_of_erratum(form.name, e, WARN) for e in lowered.warned]
    if isinstance(form, WrappedForm) and form.how == IN_FLOATS:
        reasons += [_of_erratum(form.name, *found) for found in between_conversions(built, lowered, target)]
    if any(not r.warning for r in reasons):
        return None, reasons
    if why := refusal(lowered):
        return None, [*reasons, Reason(form.name, "", why)]
    warned = dict.fromkeys(r.rule for r in reasons if r.rule in RECORDS)
    return replace(lowered, warned=tuple(warned)), reasons


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


def judge(lowered: Lowered, target: Target) -> Iterator[Reason]:
    """Yields the objections of ``target``'s validators to the ops of ``lowered``, and to the ops of its layouts."""
    for op in lowered.ops:
        yield from _broken(lowered.form, op, target, "")
        for slot, t, written in _tensors(op):
            if t.static:
                continue
            way = "from" if written else "into"
            for change in layout_ops(t, inverse=written):
                yield from _broken(
                    lowered.form, change, target, f"the {change.op} that brings {slot} {way} its layout: "
                )


def _tensors(op: LoweredOp) -> Iterator[tuple[str, TensorRef, bool]]:
    tensors = (*op.inputs, *op.outputs)
    slots = op.slots or ("a tensor",) * len(tensors)
    for i, (slot, t) in enumerate(zip(slots, tensors, strict=True)):
        if t is not None:
            yield slot, t, i >= len(op.inputs)


def refuses(v: Violation, target: Target) -> bool:
    """True if no lowering may contain an op with this violation."""
    return excludes(v, target) or v.rule in UNCHECKED


def _broken(form: str, op: LoweredOp, target: Target, prefix: str) -> Iterator[Reason]:
    for v in violations(op.config(), target):
        if not v.erratum:
            yield Reason(form, v.rule, prefix + v.message, not refuses(v, target), prefix + v.brief)
        elif (decision := policy(v.erratum, target)) != IGNORE:
            said = prefix + v.message, prefix + v.brief
            yield _of_erratum(form, v.erratum, decision if refuses(v, target) else WARN, *said)


def _of_erratum(form: str, erratum: str, decision: str, refusal: str = "", brief: str = "") -> Reason:
    """``refusal``, ``brief``: the texts for an erratum that is avoided; by default its title."""
    record = RECORDS[erratum]
    if decision == WARN:
        return Reason(form, erratum, warning(record), warning=True)
    return Reason(form, erratum, refusal or record.title, brief=brief)


def hits(op: LoweredOp, target: Target) -> frozenset[str]:
    """The errata that the validators of ``target`` report for ``op``; the policy decides whether they are avoided."""
    return frozenset(v.erratum for v in violations(op.config(), target) if v.erratum)


@lru_cache(REMEMBERED)
def _nearest(config: OpConfig, target: Target) -> Variant | None:
    return nearest(config, target, finalized=True)


@lru_cache(REMEMBERED)
def violations(config: OpConfig, target: Target) -> tuple[Violation, ...]:
    """The violations of an op config without data on ``target``; cached, because models repeat their configs.

    If the spec of an op of another package than QNN's says nothing of the backend, only its definition counts, as in the
    package itself.
    """
    own = config.package != QNN and target.backend not in validate.validator(config.op).DOCUMENTED
    return validate.check(config, None if own else target).violations
