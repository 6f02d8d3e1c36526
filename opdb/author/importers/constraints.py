"""Translates the constraints of an op definition: each kind of fact becomes a rule, or words if it has none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from opdb.author.importers.naming import Names
from opdb.author.importers.symbolic import Condition, between, expression, translate
from opdb.catalog.facts import DocumentedOp, DocumentedParam, DocumentedTensor

#: Kinds that a slot's shape, type, or presence already states, or that imply nothing.
STATED = {
    "shape_same",
    "rank_same",
    "count",
    "count_relation",
    "ignored_if",
    "dynamic_dims",
    "dynamic_dims_allowed",
}
#: Kinds whose text is the rule; OF_PARAMS: only if it is about a parameter.
DIRECT = {"size", "divisible", "dim_relation", "rank_relation"}
OF_PARAMS = {"value_range", "value_cmp", "unique"}
RISING = re.compile(r"(\w+)\[i\+1\] > \1\[i\]")
Part = DocumentedTensor | DocumentedParam


def of_op(
    op: DocumentedOp, names: Names, ins: dict[str, Any], outs: dict[str, Any]
) -> tuple[list[Condition], list[str]]:
    """Rules in the order of slots and parameters, and the facts that they do not express."""
    rules: list[Condition] = _broadcasting(op, ins)
    words: list[str] = []
    shapes = {**ins, **outs}
    parts: list[Part] = [*op.inputs, *op.params, *op.outputs]
    for part in parts:
        own = names.of(part.slot) if isinstance(part, DocumentedTensor) else part.name
        if part.facts.get("relation", "").startswith("for all i,d != axis:"):
            rules += _agree_beside_axis(own)
        if isinstance(part, DocumentedParam) and part.shape == ("N",):
            rules.append(Condition(f"len({own}) == {names.symbols.get('N', 'x.rank')}", "shape [N]"))
        for fact in part.constraints:
            found = list(_rules(fact, part, own, names, _shape(shapes.get(own))))
            rules += found
            if not found and not _stated(fact["kind"], _shape(shapes.get(own))):
                words.append(f"{own}: {fact['expr']}")
    for fact in op.constraints:
        found = list(_op_rules(fact, ins, names))
        rules += found
        if not found and fact["kind"] not in STATED:
            words.append(fact["expr"])
    absent = [p.name for p in op.params if not p.mandatory and _unset(p.default)]
    absent += [names.of(t.slot) for t in op.inputs if not t.mandatory]
    return list(dict.fromkeys(_where_present(r, absent) for r in rules)), words


def _shape(entry: Any) -> Any:
    return entry.get("shape") if isinstance(entry, dict) else entry


def _unset(default: Any) -> bool:
    return default is None or (isinstance(default, dict) and ("unset" in default or "none" in default))


def _broadcasting(op: DocumentedOp, ins: dict[str, Any]) -> list[Condition]:
    if "elementwise_broadcast" not in op.facts.get("rules", ()) or len(ins) != 2:
        return []
    first, second = (s[0].removesuffix("...") for s in ins.values())
    return [Condition(f"broadcastable({first}, {second})", "elementwise_broadcast")]


def _agree_beside_axis(own: str) -> list[Condition]:
    text = "all shapes agree beside the axis"
    ranks = "The sizes beside the axis can only agree where the ranks do."
    each = f"all(x.shape[i] == {own}[0].shape[i] for x in {own} for i in range({own}[0].rank) if i != axis)"
    return [Condition(f"all(x.rank == {own}[0].rank for x in {own})", text, why=ranks), Condition(each, text)]


def _where_present(rule: Condition, absent: list[str]) -> Condition:
    """Restricts a rule to configs that have the parts it reads."""
    read = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"present\(\w+\)", "", rule.require)))
    known = set(re.findall(r"present\((\w+)\)", rule.when or ""))
    parts = [f"present({name})" for name in absent if name in read - known]
    return replace(rule, when=" and ".join([*parts, *([rule.when] if rule.when else [])])) if parts else rule


def _stated(kind: str, shape: Any) -> bool:
    """True if the slot's shape already states a fact that has no rule."""
    derived = isinstance(shape, str) and shape != "any"
    of_shape = kind in ("broadcast", "dim_relation") and derived
    return kind in STATED or (kind == "rank" and isinstance(shape, list)) or of_shape


def _rules(fact: Any, part: Part, own: str, names: Names, shape: Any) -> Iterator[Condition]:
    kind, text = fact["kind"], fact["expr"]
    of_param = isinstance(part, DocumentedParam)
    fixed = isinstance(shape, list) and not shape[0].endswith("...")
    if (kind == "rank" and not fixed) or (kind == "dtype_same" and "operation" not in text):
        yield _each(translate(text, names, own), own, names)
    elif kind == "permutation":
        rank = names.symbols.get("N", "x.rank")
        yield Condition(f"all(0 <= p < {rank} for p in {own})", text)
        yield Condition(f"unique({own})", text)
    elif kind == "valid_if":
        yield Condition(expression(text, names, own), text, f"present({own})")
    elif kind == "required_if":
        yield Condition(f"present({own})", text, expression(text, names, own))
    elif kind == "value_range" and of_param and "min" in fact and "max" in fact:
        yield Condition(between(str(fact["min"]), own, str(fact["max"]), names, own), text)
    elif _says_itself(kind, text, shape, of_param):
        yield translate(text, names, own)


def _says_itself(kind: str, text: str, shape: Any, of_param: bool) -> bool:
    """True if the fact's own text is the rule."""
    if kind == "value_relation":
        return RISING.fullmatch(text) is not None
    return (kind in DIRECT and not isinstance(shape, str)) or (kind in OF_PARAMS and of_param)


def _each(rule: Condition, own: str, names: Names) -> Condition:
    """Applies a rule about a variadic slot to each of its tensors."""
    if own not in names.variadic:
        return rule
    taken = {*names.slots.values(), *names.params}
    v = own[0] if own[0] not in taken else "t"
    return Condition(
        f"all({rule.require.replace(f'{own}.', f'{v}.')} for {v} in {own})", rule.text, rule.when
    )


def _op_rules(fact: Any, ins: dict[str, Any], names: Names) -> Iterator[Condition]:
    kind, text = fact["kind"], fact["expr"]
    if kind == "broadcast" and "batch dims" in text:
        heads = [
            s[0].removesuffix("...") for s in ins.values() if isinstance(s, list) and s[0].endswith("...")
        ]
        if len(heads) == 2:
            yield Condition(f"broadcastable({heads[0]}, {heads[1]})", text)
    elif kind in ("divisible", "value_cmp"):
        yield translate(text, names, "")
