"""The view for the template of a Python validator: texts of every part of one op's rules."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from opdb.codegen import emit_python
from opdb.codegen.environment import python_string
from opdb.codegen.names import local, renamed, renamed_loop
from opdb.codegen.rules import (
    Needs,
    RuleView,
    all_rules,
    needs,
    negated,
    of_target,
    rank_rule,
    read_on,
    rule_nodes,
    rule_view,
    same_dtype,
    sdk_range,
    unchecked,
)
from opdb.runtime.checks import RuleStrength
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import Bind, CompiledErratum, CompiledOp, CompiledRule, Inference, Param, Slot
from opdb.spec.lang.analyze import atoms, free_names
from opdb.spec.lang.nodes import INT, TENSOR, TENSORS, Name, Node, is_enum
from opdb.spec.lang.printer import to_text

#: Texts for conditions on the target: the prefix of its fields, a comparison with a backend, "and", "or".
WORDS = ("context.", 'context.backend == "{}"', "and", "or")


def backend_names(catalog: Catalog) -> list[str]:
    """Every backend, in order."""
    return list(catalog.backends)


def _slot(slot: Slot) -> str:
    parts = [python_string(slot.name)]
    if slot.optional:
        parts.append("optional=True")
    if slot.variadic:
        parts += ["variadic=True", f"minimum={slot.definition.min}"]
    return f"Slot({', '.join(parts)})"


def _param(param: Param) -> str:
    d = param.definition
    parts = [python_string(param.name), python_string(d.base)]
    if d.dims:
        parts.append(f"({', '.join(map(str, d.dims))},)")
    if not param.required:
        parts.append("required=False")
    if d.enum:
        parts.append(f"enum={param.name.upper()}")
    return f"Param({', '.join(parts)})"


def reading(node: Node) -> str:
    """The expression of a binding, e.g. x.shape[:-2]; needs no helpers because the ranks were checked."""
    if node.kind == "index":
        return f"{local(node.args[0].args[0].value)}.shape[{node.args[1].value}]"
    if node.kind == "slice":
        return f"{local(node.args[0].args[0].value)}.shape[:{node.args[1].value}]"
    return f"{local(node.args[0].value)}.shape"


def bound(bind: Bind, names: Mapping[str, Name]) -> str:
    """The value of a shape symbol; a Let if the rank may be wrong."""
    if bind.sure:
        return reading(bind.value)
    return f"Let(lambda: {emit_python.expression(renamed(bind.value), names)})"


def _strength(op: CompiledOp, ident: str, strength: RuleStrength) -> str:
    """The Python expression of a rule's strength ("" for the default); a rule the target does not check only warns."""
    if strength != "require":
        return python_string(strength)
    unless = unchecked(op, ident, *WORDS)
    return f'"expect" if {unless} else "require"' if unless else ""


class _Op:
    """The texts of one op."""

    def __init__(self, op: CompiledOp) -> None:
        self.op, self.names = op, {local(n): known for n, known in op.scope.names.items()}
        for backend in op.definition.backends:
            for free in (free for node in read_on(op, backend) for free in free_names(node)):
                self.names.setdefault(local(free), Name(INT))
        self.enums = {p.name for p in op.params if is_enum(p.type)}
        self.nodes: list[Node] = []  # everything emitted, for the import line
        self.extra: set[str] = set()

    def text(self, node: Node) -> str:
        node = renamed(node)
        self.nodes.append(node)
        return emit_python.expression(node, self.names)

    def got(self, atom: Node) -> str:
        label = python_string(to_text(atom))
        name = local(atom.args[0].value if atom.kind == "attr" else atom.value)
        known = self.names.get(name)
        if atom.kind == "attr":
            given = f"{name} and " if known is not None and known.optional else ""
            value = {"values": "known_values"}.get(atom.value, atom.value)
            return f"({label}, {given}{name}.{value})"
        if atom.value in self.enums:
            return f"({label}, {atom.value.upper()}.get({name}))"
        shown = ".shown()" if known is not None and known.let else ""
        return f"({label}, {name}{shown})"

    def witness(self, node: Node) -> str:
        """A generator expression of the values in each failing iteration, e.g. a = 3 at axes[1]."""
        loops = node.value[1]
        saved = dict(self.names)
        shown = []
        for loop in loops:
            name, label, source = local(loop.var), python_string(loop.var), to_text(loop.source)
            self.names[name] = Name(TENSOR if loop.source.type == TENSORS else INT)
            if loop.source.type == TENSORS:
                shown.append(f'({label}, f"{source}[{{{name}_i}}]")')
            elif loop.source.kind in ("name", "attr"):
                self.extra.add("element")
                shown.append(f'({label}, element({name}, "{source}", {name}_i))')
            else:
                shown.append(f"({label}, {name})")
        variables = tuple(loop.var for loop in loops)
        body = node.args[0]
        inner = [a for a in atoms(body) if any(n in variables for n in free_names(a))]
        shown += [
            self.got(a) for a in dict.fromkeys(inner) if not (a.kind == "name" and a.value in variables)
        ]
        failing = self.text(negated(body))
        text = emit_python.loops_text(tuple(map(renamed_loop, loops)), self.names, numbered=True)
        if any(loop.source.type == TENSORS for loop in loops):
            self.extra.add("given")
        self.names = saved
        return f"(({', '.join(shown)},){text} if {failing})"

    def rule(self, rule: CompiledRule) -> dict[str, Any]:
        """One call of the report's ``rank``, ``same_dtype``, or ``check`` with the condition."""
        view = rule_view(self.op, rule)
        rank, alike = rank_rule(self.op, view), same_dtype(self.op, view)
        if rank is not None:
            of, given = "rank", [local(rank.slot), *(str(b) for b in (rank.low, rank.high) if b is not None)]
        elif alike:
            of, given = "same_dtype", [f"({python_string(n)}, {local(n)})" for n in alike]
        else:
            return {"of": "check"} | self._texts(view)
        return {"of": of, "given": given} | self._words(view)

    def _words(self, view: RuleView) -> dict[str, Any]:
        rule = view.rule
        return {
            "id": python_string(rule.id),
            "sentence": python_string(view.sentence),
            "why": python_string(rule.why or ""),
            "strength": _strength(self.op, rule.id, rule.strength),
            "path": python_string(view.path),
        }

    def _texts(self, view: RuleView) -> dict[str, Any]:
        return self._words(view) | {
            "holds": self.text(view.condition),
            "got": [self.got(a) for a in view.atoms],
            "witness": self.witness(view.witness) if view.witness is not None else None,
        }

    def erratum(self, erratum: CompiledErratum) -> dict[str, Any]:
        record = erratum.definition
        return self._texts(rule_view(self.op, erratum.rule)) | {
            "sentence": python_string(record.title),
            "why": python_string(record.detail or ""),
            "effect": python_string(record.effect),
            "scope": self.text(erratum.scope) if erratum.scope is not None else "",
        }


def view(op: CompiledOp) -> dict[str, Any]:
    """The view of ``validator.py.j2``.  The imports come last: they are the names that the other texts use."""
    texts = _Op(op)
    parts = _signature(op) | _rules(op, texts) | _infer(op, texts)
    return parts | {"checks": _checks(op, texts), "binding": _binding(op, parts)}


def _signature(op: CompiledOp) -> dict[str, Any]:
    names = [*(s.name for s in op.inputs), *(p.name for p in op.params), *(s.name for s in op.outputs)]
    enums = [(p.name.upper(), p.definition.enum) for p in op.params if p.definition.enum]
    return {
        "op": op.name,
        "summary": op.definition.summary or "",
        "enums": [(name, {local(k): (k, v) for k, v in values.items()}) for name, values in enums],
        "inputs": [_slot(s) for s in op.inputs],
        "params": [_param(p) for p in op.params],
        "outputs": [_slot(s) for s in op.outputs],
        "arguments": [local(n) for n in names],
        "samples": [repr(dict(s)) for s in op.definition.samples],
    }


def _rules(op: CompiledOp, texts: _Op) -> dict[str, Any]:
    ranks = [texts.rule(r) for r in op.ranks]
    rules = [texts.rule(r) for r in op.rules]
    backends = [_backend(op, name, texts) for name in op.definition.backends]
    every = (*ranks, *rules, *(r for b in backends for r in b["rules"]))
    return {
        "ranks": ranks,
        "checks_in_validate": any(r["of"] == "check" for r in every),
        "open_ranks": any(r["strength"] for r in ranks) or bool(unchecked(op, "UNKNOWN_PARAMS", *WORDS)),
        "validate": _preamble(op, needs(op, rule_nodes(all_rules(op))), texts),
        "unknown_strength": _strength(op, "UNKNOWN_PARAMS", "require"),
        "rules": rules,
        "backends": backends,
        "backend_names": [python_string(b["name"]) for b in backends],
    }


def _infer(op: CompiledOp, texts: _Op) -> dict[str, Any]:
    outputs = [_inference(i, texts) for i in op.inferences]
    if _infers(op) and outputs:
        texts.extra |= {"inferred"} | ({"indices"} if any(i["count"] for i in outputs) else set())
    inferable = {i.output for i in op.inferences}
    return {
        "infer": {"outputs": outputs, "preamble": _preamble(op, _used_by_infer(op), texts)},
        "uninferable": [s.name for s in op.outputs if s.name not in inferable],
    }


def _infers(op: CompiledOp) -> bool:
    """True if every output can be inferred; otherwise infer returns no shape at all."""
    return len(op.inferences) == len(op.outputs)


def _used_by_infer(op: CompiledOp) -> Needs:
    inferences = op.inferences if _infers(op) else ()
    return needs(op, [n for i in inferences for n in (i.shape, *([i.count] if i.count else []))])


def _checks(op: CompiledOp, texts: _Op) -> list[str]:
    """The names that the validator imports from opdb.runtime.checks."""
    used = needs(op, rule_nodes(all_rules(op))).values | _used_by_infer(op).values
    lets = [node for name, node in op.lets if name in used]
    defaults = [p.default for p in op.params if p.default is not None]
    nodes = [*lets, *(b.value for b in op.binds if not b.sure), *defaults]
    helpers = emit_python.helpers([*texts.nodes, *map(renamed, nodes)], texts.names)
    checks = {"Report", "Violation"} | helpers | texts.extra
    if not _infers(op):
        checks.add("Undecidable")
    if lets or not all(b.sure for b in op.binds):
        checks.add("Let")
    if any(p.default is not None and not texts.names[local(p.name)].sure for p in op.params):
        checks.add("default")
    return sorted(checks, key=lambda n: (n[0].islower(), n))


def _binding(op: CompiledOp, parts: Mapping[str, Any]) -> list[str]:
    """The names that the validator imports from opdb.runtime.binding."""
    names = ["ANY", "Context", *(["Param"] if op.params else []), "Signature", "Slot", "bind", "bind_inputs"]
    types = any(b["rows"] for b in parts["backends"])
    return [*names, *(["check_types", "check_unknown", "rows"] if types else ["check_unknown"])]


def _preamble(op: CompiledOp, used: Needs, texts: _Op) -> dict[str, Any]:
    """The used bindings, defaults, and named expressions, in order."""
    defaults = []
    for p in op.params:
        if p.default is None or p.name not in used.values:
            continue
        value = emit_python.expression(renamed(p.default), texts.names)
        sure = texts.names[local(p.name)].sure
        defaults.append((local(p.name), value if sure else f"default(lambda: {value})"))
    return {
        "given": [local(n) for n in sorted(used.asked)],
        "binds": [(local(b.symbol), bound(b, texts.names)) for b in op.binds if b.symbol in used.values],
        "defaults": defaults,
        "lets": [
            (local(n), emit_python.expression(renamed(node), texts.names))
            for n, node in op.lets
            if n in used.values
        ],
    }


def _backend(op: CompiledOp, name: str, texts: _Op) -> dict[str, Any]:
    rules = [texts.rule(r) for r in op.backend_rules[name]]
    errata = [texts.erratum(e) for e in op.errata.get(name, ())]
    tables: list[tuple[tuple[int, int, str], list[tuple[str, list[str]]]]] = []
    for row in op.type_rows[name]:  # order matters: the first match is the config's row
        where = (*sdk_range(row), row.needs.has if row.needs else "")
        if not tables or tables[-1][0] != where:
            tables.append((where, []))
        tables[-1][1].append((row.id, [" ".join(c) for c in row.cells.values()]))
    return {
        "name": name,
        "rules": rules,
        "scoped": [(scope, list(group)) for scope, group in groupby(errata, key=itemgetter("scope"))],
        "context": [n for n, _ in of_target(op, read_on(op, name))],
        "rows": [row for _, rows in tables for row in rows],
        "tables": tables,
        "ranged": any(where != (0, 0, "") for where, _ in tables),
        "slots": [local(s.name) for s in op.slots],
    }


def _inference(inference: Inference, texts: _Op) -> dict[str, Any]:
    names = dict(texts.names)
    if inference.index:
        texts.names[local(inference.index)] = Name(INT)
    shape = texts.text(inference.shape)
    count = texts.text(inference.count) if inference.count is not None else None
    texts.names = names
    return {
        "output": inference.output,
        "shape": shape,
        "count": count,
        "index": inference.index and local(inference.index),
    }
