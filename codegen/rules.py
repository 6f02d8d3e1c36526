"""Analysis of an op's rules, shared by the Python and C generators."""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from dataclasses import dataclass, replace

from opdb.codegen import emit_english
from opdb.core.sdk import sdk_number
from opdb.spec.backend import Need
from opdb.spec.definitions import CompiledOp, CompiledRule, TypeRow
from opdb.spec.lang.analyze import atoms, free_names
from opdb.spec.lang.nodes import Node, children, walk
from opdb.spec.model import Unchecked


def snake(name: str) -> str:
    """An op's name in snake case, e.g. LayerNorm -> layer_norm, Conv2d -> conv2d, MatMul -> mat_mul."""
    out = ""
    for i, c in enumerate(name):
        out += ("_" if c.isupper() and i and (not name[i - 1].isupper()) else "") + c.lower()
    return out


def module(name: str) -> str:
    """The name of an op's Python modules: ``snake``, but If -> if_."""
    made = snake(name)
    return f"{made}_" if keyword.iskeyword(made) else made


@dataclass(frozen=True)
class RuleView:
    """One rule with everything that a message shows."""

    rule: CompiledRule
    sentence: str
    path: str  # e.g. params.axes: the first parameter, else output, else input that `require` reads
    atoms: tuple[Node, ...]  # subexpressions whose values are always shown
    witness: Node | None  # an `all`, whose first failing iteration is shown too

    @property
    def condition(self) -> Node:
        """The whole condition: `require`, or "not when, or require"."""
        if self.rule.when is None:
            return self.rule.require
        if self._never:
            return negated(self.rule.when)
        return Node("or", "bool", (negated(self.rule.when), self.rule.require))

    @property
    def denied(self) -> Node:
        """The opposite of ``condition``: `when`, and not `require`."""
        if self.rule.when is None:
            return negated(self.rule.require)
        return (
            self.rule.when
            if self._never
            else Node("and", "bool", (self.rule.when, negated(self.rule.require)))
        )

    @property
    def _never(self) -> bool:
        """True for an erratum without `unless`."""
        return self.rule.require.kind == "const" and not self.rule.require.value


@dataclass(frozen=True)
class RankRule:
    """A rule on the rank of one tensor; it holds if the tensor is omitted."""

    slot: str
    low: int
    high: int | None


def rank_rule(op: CompiledOp, view: RuleView) -> RankRule | None:
    """The rule as a RankRule if it only bounds a rank, e.g. 1 <= x.rank <= 5; else None."""
    node = view.rule.require
    if node.kind != "compare" or not set(node.value) <= {"<=", ">=", "=="}:
        return None
    bounds = [n.value for n in node.args if n.kind == "const"]
    found = _slots_of(op, view, (node.args[len(node.args) - 2],), "rank")
    if not found or len(bounds) != len(node.value):
        return None
    match node.value:
        case ("<=", "<="):
            return RankRule(found[0], *bounds)
        case ("<=",):
            return RankRule(found[0], 0, bounds[0])
        case (">=",):
            return RankRule(found[0], bounds[0], None)
        case ("==",):
            return RankRule(found[0], bounds[0], bounds[0])
    return None


def same_dtype(op: CompiledOp, view: RuleView) -> tuple[str, ...]:
    """The two tensors whose dtypes must be equal, if the rule requires only that; else ()."""
    node = view.rule.require
    if node.kind != "compare" or node.value != ("==",):
        return ()
    return _slots_of(op, view, node.args, "dtype")


def _slots_of(op: CompiledOp, view: RuleView, nodes: Iterable[Node], attribute: str) -> tuple[str, ...]:
    """The slots whose ``attribute`` the nodes read; () if a node reads anything else, or an optional slot unguarded."""
    slots = {s.name: s for s in op.slots if not s.variadic}
    names: list[str] = []
    for node in nodes:
        if node.kind != "attr" or node.value != attribute or node.args[0].value not in slots:
            return ()
        names.append(node.args[0].value)
    when = view.rule.when
    asked = set() if when is None else {when.args[0].value} if _asks(when) else {""}
    return tuple(names) if asked == {n for n in names if slots[n].optional} else ()


def _asks(when: Node) -> bool:
    """True if the condition is only ``present(...)``."""
    return when.kind == "call" and when.value == "present"


OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def negated(node: Node) -> Node:
    """The negation of a truth value, using the opposite operator instead of "not" if possible (floats: only == and !=)."""
    if node.kind == "not":
        return node.args[0]
    if node.kind == "in":
        return replace(node, value=not node.value)
    if (
        node.kind == "compare"
        and len(node.value) == 1
        and (node.value[0] in ("==", "!=") or node.args[0].type == "int")
    ):
        return replace(node, value=(OPPOSITE[node.value[0]],))
    return Node("not", "bool", (node,))


def rule_view(op: CompiledOp, rule: CompiledRule) -> RuleView:
    witness = rule.require if rule.require.kind == "comp" and rule.require.value[0] == "all" else None
    parts = ([rule.when] if rule.when is not None else []) + [rule.require]
    shown = tuple(dict.fromkeys(a for p in parts for a in atoms(p)))
    sentence = emit_english.rule_sentence(rule.require, rule.when, rule.backend)
    return RuleView(rule, sentence, _path(op, rule), shown, witness)


def _path(op: CompiledOp, rule: CompiledRule) -> str:
    groups = {s.name: "outputs" if s.output else "inputs" for s in op.slots} | {
        p.name: "params" for p in op.params
    }
    names = [n for n in free_names(rule.require) if n in groups]
    for group in ("params", "outputs", "inputs"):
        for name in names:
            if groups[name] == group:
                return f"{group}.{name}"
    return ""


@dataclass(frozen=True)
class Needs:
    """The names that expressions read: values, and parameters whose presence is tested (``asked``)."""

    values: frozenset[str]
    asked: frozenset[str]


def needs(op: CompiledOp, nodes: Iterable[Node], also: Iterable[str] = ()) -> Needs:
    """The names that ``nodes`` and ``also`` read, including through named expressions and defaults."""
    lets, params = dict(op.lets), {p.name: p for p in op.params}
    values: set[str] = set()
    asked: set[str] = set()
    pending = list(nodes)
    names = list(also)
    while pending or names:
        if pending:
            node = pending.pop()
            names += _values(node, params.keys(), asked)
            continue
        name = names.pop()
        if name in values:
            continue
        values.add(name)
        default = params[name].default if name in params else None
        pending += [n for n in (lets.get(name), default) if n is not None]
    return Needs(frozenset(values), frozenset(asked))


def _values(node: Node, params: Iterable[str], asked: set[str]) -> list[str]:
    if node.kind == "call" and node.value == "present" and node.args[0].value in params:
        asked.add(node.args[0].value)
        return []
    if node.kind == "name":
        return [node.value]
    return [n for child in children(node) for n in _values(child, params, asked)]


def rule_nodes(rules: Iterable[CompiledRule]) -> list[Node]:
    return [n for r in rules for n in (r.require, *([r.when] if r.when is not None else []))]


def all_rules(op: CompiledOp) -> list[CompiledRule]:
    """The rules that are judged after binding: the op's own, each backend's, and the errata."""
    errata = [e.rule for group in op.errata.values() for e in group]
    return [r for group in (op.rules, *op.backend_rules.values()) for r in group] + errata


def read_on(op: CompiledOp, backend: str) -> list[Node]:
    """The expressions of the rules and errata of a backend."""
    errata = op.errata.get(backend, ())
    nodes = rule_nodes((*op.backend_rules[backend], *(e.rule for e in errata)))
    return nodes + [e.scope for e in errata if e.scope is not None]


def of_target(op: CompiledOp, nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """The names and types of target values that ``nodes`` read, e.g. [("arch", INT)]."""
    own = {*op.scope.names, *(b.symbol for b in op.binds), *dict(op.lets)}
    types = {n.value: n.type for node in nodes for n in walk(node) if n.kind == "name"}
    free = {name for node in nodes for name in free_names(node)}
    return [(name, types[name]) for name in sorted(free - own)]


def need_name(backend: str, need: Need) -> str:
    """The C name of a need of type rows."""
    return f"OPDB_{backend}_{need.has.upper()}"


def sdk_range(of: TypeRow | Unchecked) -> tuple[int, int]:
    """The first and the last SDK of a range as numbers; 0 if unbounded."""
    return (sdk_number(of.since) if of.since else 0, sdk_number(of.until) if of.until else 0)


def unchecked(op: CompiledOp, ident: str, target: str, backend: str, both: str, either: str) -> str:
    """The condition under which the target does not check the rule ``ident``; "" if every target does.

    ``target`` is the text before a field of the target, ``backend`` the text of a comparison with a backend
    ({}), ``both`` and ``either`` the language's words for and, or.
    """
    cases = []
    for name, entry in op.unchecked(ident).items():
        since, until = sdk_range(entry)
        parts = [backend.format(name)]
        parts += [f"{target}sdk >= {since}"] if since else []
        parts += [f"{target}sdk <= {until}"] if until else []
        cases.append(f" {both} ".join(parts))
    return (
        f" {either} ".join(f"({c})" if both in c else c for c in cases) if len(cases) > 1 else "".join(cases)
    )
