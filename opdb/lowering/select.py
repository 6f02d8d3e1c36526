"""One torch node -> QNN ops that a target accepts, or every reason why not.

The forms of an ATen target are tried in order: ops in the order of their names, then decompositions.  The
first whose guard holds and whose ops the generated validators accept is taken.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from opdb import validate
from opdb.errata import htp
from opdb.generated.builders import TARGETS
from opdb.lowering.in_floats import FormInFloats, InFloats
from opdb.lowering.ranges import unranged
from opdb.nearest import Variant, nearest
from opdb.op_config import OpConfig
from opdb.runtime import direct
from opdb.runtime.checks import Undecidable, Violation
from opdb.runtime.lowering import Form, Lowered, LoweredOp, NodeView, Reason, Rejected, layout_ops
from opdb.runtime.tensors import Rejection, TensorRef, empty
from opdb.targets.target import Target

REMEMBERED = 1 << 14  # verdicts of op configs


def forms(torch_target: str) -> tuple[Form, ...]:
    """The forms of an ATen target, in the order of trying, or the one of an operator of opdb.torch_ops."""
    return TARGETS.get(torch_target) or direct.forms(torch_target)


def mapped(torch_target: str) -> bool:
    """Whether this target has a form; ex) aten.relu.default, qnn.Gru.default."""
    return bool(forms(torch_target))


@cache
def unmapped_reason(torch_target: str) -> Reason:
    """Why there is no form, with the nearest target that has one: another overload, or nearly the name."""
    packets = {t.rpartition(".")[0]: t for t in reversed(TARGETS)}
    packet = torch_target.rpartition(".")[0]
    close = [p for p in (packet, packet.rstrip("_")) if p in packets]
    close += difflib.get_close_matches(packet, packets, 1, cutoff=0.9)
    nearest = f"; the nearest that one maps is {packets[close[0]]}" if close else ""
    return Reason("", "", f"no spec maps {torch_target}{nearest}")


def lower(view: NodeView, target: Target) -> Lowered | Rejected:
    """The first form of ``view`` that ``target`` accepts; its ``notes`` say why earlier ones were not."""
    if not mapped(view.target):
        return Rejected((unmapped_reason(view.target),))
    reasons: list[Reason] = []
    for form in forms(view.target):
        lowered, found = _attempt(form, view, target)
        reasons += found
        if lowered is not None:
            return replace(lowered, notes=tuple(reasons))
    floats = InFloats(view)
    for form in forms(view.target):
        lowered, found = _attempt(FormInFloats(form, target.context()), floats, target)
        reasons += found if floats.changed else []
        if lowered is not None:
            return replace(lowered, notes=tuple(reasons))
    return Rejected(tuple(dict.fromkeys(reasons)))


def _attempt(form: Form | FormInFloats, view: Any, target: Target) -> tuple[Lowered | None, list[Reason]]:
    guard = f"{form.name}.M_{view.target}"
    try:
        lowered = form.build(view)
        if target.backend == "HTP":
            lowered = htp.mended(view, lowered, lambda op: _rules(op, target))
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
    reasons = list(judge(lowered, target))
    return (None if any(not r.warning for r in reasons) else lowered), reasons


def nearest_forms(view: NodeView, target: Target) -> Iterator[tuple[str, str, Variant]]:
    """What would make ``target`` accept the forms of a rejected node: (form, op, the op's nearest variant).

    A form is left out where its guard refuses the node, or where one of its ops has no accepted variant.
    """
    for form in forms(view.target):
        try:
            ops = form.build(view).ops
        except (Rejection, Undecidable):
            continue
        refused = [op for op in ops if any(v.refuses for v in violations(op.config(), target))]
        found = [(form.name, op.op, _nearest(op.config(), target)) for op in refused]
        if all(v is not None for _, _, v in found):
            yield from ((form_name, op, v) for form_name, op, v in found if v is not None)


def judge(lowered: Lowered, target: Target) -> Iterator[Reason]:
    """What ``target``'s validators hold against the ops of ``lowered``, and the ops of its layouts."""
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


def _broken(form: str, op: LoweredOp, target: Target, prefix: str) -> Iterator[Reason]:
    for v in violations(op.config(), target):
        yield Reason(form, v.rule, prefix + v.message, not v.refuses and v.rule not in htp.RULES)


def _rules(op: LoweredOp, target: Target) -> set[str]:
    return {v.rule for v in violations(op.config(), target)}


@lru_cache(REMEMBERED)
def _nearest(config: OpConfig, target: Target) -> Variant | None:
    return nearest(config, target, finalized=True)


@lru_cache(REMEMBERED)
def violations(config: OpConfig, target: Target) -> tuple[Violation, ...]:
    """What ``target`` holds against an op config without data; models repeat theirs."""
    return validate.check(config, target).violations
