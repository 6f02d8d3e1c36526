"""The rules and errata of a target that ops break."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from opdb.catalog.targets.target import Target
from opdb.core.op_config import OpConfig
from opdb.judge import validate
from opdb.judge.errata.policy import IGNORE, WARN, excludes, policy, warning
from opdb.judge.errata.records import RECORDS
from opdb.runtime.checks import Violation
from opdb.runtime.direct import OWN as QNN
from opdb.runtime.forms import Lowered, LoweredOp, Reason, layout_ops
from opdb.runtime.tensors import TensorRef

#: Rules of ops that HTP does not check and that no lowering may break: HTP would compute something else.
UNCHECKED = frozenset({"Reshape.C1"})
REMEMBERED = 1 << 14  # verdicts of op configs


@lru_cache(REMEMBERED)
def violations(config: OpConfig, target: Target) -> tuple[Violation, ...]:
    """The violations of an op config without data on ``target``; cached, because models repeat their configs.

    If the spec of an op of another package than QNN's says nothing of the backend, only its definition counts, as in the
    package itself.
    """
    own = config.package != QNN and target.backend not in validate.validator(config.op).DOCUMENTED
    return validate.check(config, None if own else target).violations


def hits(op: LoweredOp, target: Target) -> frozenset[str]:
    """The errata that the validators of ``target`` report for ``op``; the policy decides whether they are avoided."""
    return frozenset(v.erratum for v in violations(op.config(), target) if v.erratum)


def refuses(v: Violation, target: Target) -> bool:
    """True if no lowering may contain an op with this violation."""
    return excludes(v, target) or v.rule in UNCHECKED


def judge(lowered: Lowered, target: Target) -> Iterator[Reason]:
    """Yields the rules and errata of ``target`` that the ops of ``lowered`` break, and the ops of its layouts."""
    for op in lowered.ops:
        yield from _broken(lowered.form, op, target, "")
        for slot, t, written in tensors(op):
            if t.static:
                continue
            way = "from" if written else "into"
            for change in layout_ops(t, inverse=written):
                yield from _broken(
                    lowered.form, change, target, f"the {change.op} that brings {slot} {way} its layout: "
                )


def _broken(form: str, op: LoweredOp, target: Target, prefix: str) -> Iterator[Reason]:
    for v in violations(op.config(), target):
        if not v.erratum:
            yield Reason(form, v.rule, prefix + v.message, not refuses(v, target), prefix + v.brief)
        elif (decision := policy(v.erratum, target)) != IGNORE:
            texts = prefix + v.message, prefix + v.brief
            yield erratum_reason(form, v.erratum, decision if refuses(v, target) else WARN, *texts)


def erratum_reason(form: str, erratum: str, decision: str, refusal: str = "", brief: str = "") -> Reason:
    """The reason for an erratum that an op has; ``refusal``, ``brief``: the texts for an erratum that is avoided; by default its title."""
    record = RECORDS[erratum]
    if decision == WARN:
        return Reason(form, erratum, warning(record), warning=True)
    return Reason(form, erratum, refusal or record.title, brief=brief)


def tensors(op: LoweredOp) -> Iterator[tuple[str, TensorRef, bool]]:
    """Yields the tensors of an op: the slot, the tensor, and True for an output."""
    found = (*op.inputs, *op.outputs)
    slots = op.slots or ("a tensor",) * len(found)
    for i, (slot, t) in enumerate(zip(slots, found, strict=True)):
        if t is not None:
            yield slot, t, i >= len(op.inputs)
