"""Maps each tensor of a node to its slot of the op, and to the spec's rules for its encoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opdb.core.graph import GraphOp
from opdb.core.quant_rules import QuantRules, SlotRule
from opdb.generated import validators
from opdb.generated.constants.quant import RULES
from opdb.runtime.binding import Slot


@dataclass(frozen=True)
class Place:
    """One tensor of a node.  ``index``: its position among the node's inputs or outputs."""

    slot: str
    tensor: str
    output: bool
    index: int
    rule: SlotRule
    shared: bool
    stored: bool = False


def rules_of(op: GraphOp) -> QuantRules:
    """The encoding rules in the spec of the node's op; no rules for an op without a spec."""
    return RULES.get(op.op, QuantRules())


def places(op: GraphOp) -> tuple[Place, ...]:
    """The tensors of a node in QNN's order, inputs first; none for an op without a spec."""
    module = validators.module(op.op)
    if module is None:
        return ()
    rules = rules_of(op)
    params: Mapping[str, Any] = {p.name: p.value for p in op.params}
    found = []
    for names, slots, output in (
        (op.inputs, module.SIGNATURE.inputs, False),
        (op.outputs, module.SIGNATURE.outputs, True),
    ):
        for i, (name, slot) in enumerate(zip(names, _spread(slots, len(names)), strict=False)):
            if name is not None:
                shared = slot in rules.shared
                rule = rules.rule(slot, params)
                found.append(Place(slot, name, output, i, rule, shared, slot in rules.stored))
    return tuple(found)


def _spread(slots: Sequence[Slot], count: int) -> list[str]:
    """The slot of each of ``count`` tensors; a variadic slot gets all tensors that the other slots do not take."""
    extra = count - len(slots) + 1
    return [s.name for s in slots for _ in range(max(extra, 0) if s.variadic else 1)]
