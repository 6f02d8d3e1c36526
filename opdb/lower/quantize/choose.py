"""Chooses the data types of one node: a row of its target's table that fits its activations' types and the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from opdb.catalog.targets.target import Target
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.op_config import OpConfig, Quant
from opdb.generated import validators
from opdb.judge.validate import Verdict, check
from opdb.lower.quantize import tables
from opdb.lower.quantize.encodings import Range, encoding
from opdb.lower.quantize.in_floats import (
    CONVERTED,
    NO_NUMBERS,
    REAL,
    avoided,
    computes,
    converts,
    holding,
    reads_numbers,
)
from opdb.lower.quantize.propagate import derive
from opdb.lower.quantize.slots import Place, places
from opdb.lower.quantize.weights import IN_8_BITS, WeightType, narrowed
from opdb.runtime.checks import Violation

#: The cost of a Convert, in ranks of preference: it exceeds that of any type of a static tensor.
CONVERT = 100


@dataclass(frozen=True)
class Form:
    """The quantized form of a node, by slot of its quantized tensors.

    ``per_slice``: slots with a scale per slice; ``symmetric``: slots with real zero in the middle, because the
    spec says so, or because a rule of the target refuses the node without it.

    ``floats``: why the node computes in floats instead, between Dequantizes and Quantizes; "" if it does not.  ``table``: why it
    is a table instead (opdb.lower.quantize.tables).  ``wider``: why it computes in 16 bits between Converts.  ``whole``: the type in
    which it writes whole numbers at scale 1, for a node that copies stored numbers.  ``weight``: the type of its slots
    with channels.  ``doubt``: the library's fault that the form has, if the target has no form without one.
    """

    dtypes: Mapping[str, str]
    per_slice: frozenset[str] = frozenset()
    symmetric: frozenset[str] = frozenset()
    floats: str = ""
    whole: str = ""
    weight: WeightType = IN_8_BITS
    table: str = ""
    wider: str = ""
    doubt: str = ""


@dataclass(frozen=True)
class Wishes:
    """``activations``: the wanted type by tensor (real tensors that are not static, or share an encoding).

    ``ranges``: the range of each real tensor, together with those that share its encoding.  ``floats``: by node, why it should
    compute in floats.
    """

    activations: Mapping[str, str]
    ranges: Mapping[str, Range]
    weights: WeightType
    target: Target
    weights_of: Mapping[str, WeightType] = field(default_factory=dict)
    floats: Mapping[str, str] = field(default_factory=dict)

    def of(self, op: GraphOp) -> WeightType:
        """Returns the wanted type of a node's constants with channels."""
        return self.weights_of.get(op.name, self.weights)


def known(op: GraphOp) -> Any:
    """Returns the validator of a node.  Raises OpdbError if its op has no spec."""
    module = validators.module(op.op)
    if module is None:
        raise OpdbError(
            f"node {op.name}: the specs do not hold the op {op.op}; opdb add-op {op.op} drafts it"
        )
    return module


def choose(graph: QnnGraph, op: GraphOp, wishes: Wishes) -> Form:
    """Tries the forms of a node in order: integers, floats, and, if the target has no floats, a table, or 16 bits for a node of 8 bits.

    Raises OpdbError with the nearest row, or with the rule that refuses it, if the target accepts none of them.
    """
    if op.name in wishes.floats:
        return _as_asked(graph, op, wishes)
    if reads_numbers(graph, op):
        return _of_numbers(graph, op, wishes)
    try:
        return _in_integers(graph, op, wishes, faultless=True)
    except NoForm as refusal:
        why = refusal.reason
    if computes(graph, op, wishes.target, faultless=True):
        return Form({}, floats=why)
    no_table = _no_table(graph, op, wishes)
    if no_table == "":
        return Form({}, table=why)
    if wider := _wider(graph, op, wishes):
        return replace(wider, wider=why)
    try:
        return replace(_in_integers(graph, op, wishes), doubt=why)
    except NoForm as refusal:
        if computes(graph, op, wishes.target):
            return Form({}, floats=refusal.reason)
        if no_table is None:
            raise
        more = f"; nor is it a table: {no_table}"
        raise NoForm("", refusal.reason + more, str(refusal) + more) from None


def fits(graph: QnnGraph, wishes: Wishes, op: GraphOp) -> bool:
    """True if a node has a form in integers without a fault of the library."""
    try:
        _in_integers(graph, op, wishes, faultless=True)
    except NoForm:
        return False
    return True


class NoForm(OpdbError):
    """Raised if a node has no form in integers; ``reason``: why, without the node's name."""

    def __init__(self, where: str, reason: str, message: str = "") -> None:
        super().__init__(where + (message or reason))
        self.reason = reason


def _as_asked(graph: QnnGraph, op: GraphOp, wishes: Wishes) -> Form:
    if computes(graph, op, wishes.target):
        return Form({}, floats=wishes.floats[op.name])
    where = f"node {op.name} ({op.op}) cannot be quantized for {wishes.target}: "
    raise NoForm(
        where, f"it is to compute in floats ({wishes.floats[op.name]}), which the target does not do"
    )


def _no_table(graph: QnnGraph, op: GraphOp, wishes: Wishes) -> str | None:
    """Why the node cannot be a table; "" if it can, None if it is not a function of single elements."""
    if not tables.source(graph, op):
        return None
    return tables.refusal(graph, op, wishes.activations, wishes.ranges, wishes.target)


def _wider(graph: QnnGraph, op: GraphOp, wishes: Wishes) -> Form | None:
    """The form in 16 bits of a node of 8 bits; None if it has none."""
    mine = {p.tensor for p in places(op) if p.tensor in wishes.activations}
    if any(wishes.activations[n] != "uq8" or graph.tensors[n].type == "STATIC" for n in mine):
        return None
    activations = {**wishes.activations, **dict.fromkeys(mine, "uq16")}
    try:
        return _in_integers(graph, op, replace(wishes, activations=activations), faultless=True)
    except NoForm:
        return None


def _of_numbers(graph: QnnGraph, op: GraphOp, wishes: Wishes) -> Form:
    """The form of a Cast between real and whole numbers: truth values at scale 1, others in floats if the target has them."""
    whole = holding(graph, op, wishes.ranges, wishes.target)
    source = graph.tensors[op.inputs[0] or ""].dtype
    if whole and source == "bool8":
        return Form({}, whole=whole)
    if computes(graph, op, wishes.target):
        return Form({}, floats=CONVERTED)
    if whole:
        return Form({}, whole=whole)
    raise NoForm(f"node {op.name} ({op.op}) cannot be quantized for {wishes.target}: ", NO_NUMBERS)


def _in_integers(graph: QnnGraph, op: GraphOp, wishes: Wishes, faultless: bool = False) -> Form:
    """The first form that the validator accepts: fewest Converts, then the wanted types of static tensors.

    ``faultless``: also without a fault that the policy avoids only by preferring other forms.  Raises NoForm.
    """
    module = known(op)
    of_node = places(op)
    slots = [s.name for s in (*module.SIGNATURE.inputs, *module.SIGNATURE.outputs)]
    context = wishes.target.context()
    table = getattr(module, f"ROWS_{wishes.target.backend}", ())
    rows = [(row.ident, row.cells) for row in table if row.holds(context)]
    if not rows:
        raise NoForm(f"node {op.name} ({op.op}): ", f"the specs hold no table of types for {wishes.target}")

    def judge(form: Form) -> Verdict:
        """Refuses warnings too: the numbers of such a form cannot be relied on."""
        verdict = check(_sketch(graph, op, of_node, form, wishes.ranges), wishes.target)
        kept = tuple(
            v for v in verdict.violations if not v.erratum or avoided(v.erratum, wishes.target, faultless)
        )
        return replace(verdict, violations=kept)

    refused: Verdict | None = None
    nearest: list[tuple[int, str]] = []
    candidates: list[tuple[int, dict[str, str]]] = []
    for ident, cells in rows:
        of_slots = dict(zip(slots, cells, strict=True))
        found, faults = _row(graph, of_node, of_slots, replace(wishes, weights=wishes.of(op)))
        candidates += found
        nearest += [(len(faults), f"{ident} has " + ", ".join(faults))] if faults else []
    for _, dtypes in sorted(candidates, key=lambda c: c[0]):
        ruled = frozenset(p.slot for p in of_node if p.slot in dtypes and p.rule.symmetric)
        for weight, per_slice in _weights(graph, of_node, dtypes, wishes.of(op)):
            form = Form(dtypes, per_slice, ruled, weight=weight)
            verdict = judge(form)
            if not verdict.violations:
                return form
            refused = refused or verdict
            if not judge(replace(form, symmetric=frozenset(dtypes))).violations:
                return _least_symmetric(form, judge)
    where = f"node {op.name} ({op.op}) cannot be quantized for {wishes.target}: "
    if refused is not None:
        messages = "; ".join(f"{v.rule}: {v.message}" for v in refused.violations)
        raise NoForm(where, "; ".join(f"{_said(v)} ({v.rule})" for v in refused.violations), messages)
    raise NoForm(where, f"no row of its types fits; the nearest, {min(nearest)[1]}")


def _said(violation: Violation) -> str:
    """The rule's sentence if libraries only warn of it; otherwise the reason with the values."""
    return violation.sentence if violation.warning and not violation.erratum else violation.brief


def _row(
    graph: QnnGraph, of_node: Sequence[Place], cells: Mapping[str, frozenset[str]], wishes: Wishes
) -> tuple[list[tuple[int, dict[str, str]]], list[str]]:
    """The choices that a row leaves, each with its cost, and the cells of the row that do not fit."""
    options: dict[str, list[tuple[int, str]]] = {}
    faults = []
    for slot, cell in cells.items():
        mine = [p for p in of_node if p.slot == slot]
        fixed = {graph.tensors[p.tensor].dtype for p in mine} - set(REAL)
        if not mine or (fixed and fixed <= cell):
            continue
        wanted = {wishes.activations.get(p.tensor, "") for p in mine}
        if not fixed:
            options[slot] = _options(graph, mine, cell, wishes, _activation(of_node, wishes))
        if not options.get(slot):
            got = " or ".join(sorted(fixed or wanted - {""}) or ["a quantized type"])
            faults.append(f"{slot}: {' or '.join(sorted(cell))}, not {got}")
    if faults:
        return [], faults
    choices = product(*([(cost, slot, dtype) for cost, dtype in o] for slot, o in options.items()))
    return [(sum(c for c, _, _ in choice), {s: d for _, s, d in choice}) for choice in choices], []


def _options(
    graph: QnnGraph, mine: Sequence[Place], cell: frozenset[str], wishes: Wishes, activation: str
) -> list[tuple[int, str]]:
    """The quantized types of a cell that the tensors of one slot can have, each with its cost."""
    usable = [d for d in cell if BY_SHORT[d].quantized and BY_SHORT[d].numpy]
    wanted = [wishes.activations[p.tensor] for p in mine if p.tensor in wishes.activations]
    if wanted and (mine[0].output or mine[0].shared):
        return [(0, d) for d in usable if set(wanted) == {d}]
    if wanted:
        usable.sort(key=lambda d: (-BY_SHORT[d].bits, not BY_SHORT[d].qnn.startswith("U")))
        return [
            (sum(CONVERT + i for w in wanted if w != d), d)
            for i, d in enumerate(usable)
            if all(w == d or converts(w, d, wishes.target) for w in wanted)
        ]
    order = _preferences(mine[0], wishes.weights.dtype, activation)
    return [(order.index(d) if d in order else len(order), d) for d in sorted(usable)]


def _preferences(place: Place, weights: str, activation: str) -> list[str]:
    """The types of a static tensor, best first: the spec's, then the wanted type for weights, the activations' for others."""
    other = ("u" if weights[0] == "s" else "s") + weights[1:]
    first = [place.rule.dtype] if place.rule.dtype else []
    rest = [weights, other, activation] if place.rule.axis is not None else [activation, weights, other]
    return [*first, *rest]


def _activation(of_node: Sequence[Place], wishes: Wishes) -> str:
    """The type of the node's result, or of its input."""
    found = [wishes.activations[p.tensor] for p in reversed(of_node) if p.tensor in wishes.activations]
    return found[0] if found else ""


def _weights(
    graph: QnnGraph, of_node: Sequence[Place], dtypes: Mapping[str, str], wanted: WeightType
) -> Iterator[tuple[WeightType, frozenset[str]]]:
    """Yields the types for constants with channels, best first, and the slots with a scale for each slice.

    Tries the wanted bits, then all bits of the type; if the spec names an axis, with a scale per slice, then with one for all.
    """
    with_axis = [p for p in of_node if p.rule.axis is not None and p.slot in dtypes]
    slots = frozenset(p.slot for p in with_axis)
    narrow = wanted.bits is not None and any(dtypes[s] == "sq8" for s in slots)
    for weight in dict.fromkeys((wanted, replace(wanted, block=0))) if narrow else ():
        if not weight.block or all(
            weight.divides(graph.tensors[p.tensor].shape, p.rule.axis) for p in with_axis
        ):
            if slots and wanted.per_channel:
                yield weight, slots
            if not weight.block:
                yield weight, frozenset()
    if slots and wanted.per_channel:
        yield wanted.wider, slots
    yield wanted.wider, frozenset()


def _least_symmetric(form: Form, judge: Callable[[Form], Verdict]) -> Form:
    """``form`` with as few additional symmetric slots as the validator accepts."""
    kept = frozenset(form.dtypes)
    for slot in form.dtypes:
        fewer = kept - {slot} | form.symmetric
        if not judge(replace(form, symmetric=fewer)).violations:
            kept = fewer
    return replace(form, symmetric=kept)


def _sketch(
    graph: QnnGraph, op: GraphOp, of_node: Sequence[Place], form: Form, ranges: Mapping[str, Range]
) -> OpConfig:
    """The node's op config in a form, with its final scales, because rules and errata read them."""
    config = graph.op_config(op)
    sides = {False: list(config.inputs), True: list(config.outputs)}
    mine = [p for p in of_node if p.slot in form.dtypes]
    quants = {p.tensor: _drawn(graph, p, form, ranges) for p in mine if not _derived(p, form)}
    derive(mine, quants)
    for place in mine:
        drawn = quants[place.tensor] if _derived(place, form) else _drawn(graph, place, form, ranges)
        side = sides[place.output]
        side[place.index] = replace(side[place.index], dtype=form.dtypes[place.slot], quant=drawn)
    return replace(config, inputs=tuple(sides[False]), outputs=tuple(sides[True]))


def _derived(place: Place, form: Form) -> bool:
    """True if its scale is a product of other scales of the node."""
    return bool(place.rule.scale) and form.dtypes[place.slot] == place.rule.dtype


def _drawn(graph: QnnGraph, place: Place, form: Form, ranges: Mapping[str, Range]) -> Quant:
    """The encoding of one tensor in a sketch; scales per slice are sketched as a single one."""
    static = graph.tensors[place.tensor].type == "STATIC"
    axis = place.rule.axis if place.slot in form.per_slice and static else None
    values = ranges.get(place.tensor, Range())
    found = encoding(values, form.dtypes[place.slot], place.slot in form.symmetric)
    found = found if axis is None else replace(found, encoding="AXIS_SCALE_OFFSET", axis=axis)
    if place.rule.axis is None or not static or form.dtypes[place.slot] != "sq8":
        return found
    return narrowed(found, form.weight)
