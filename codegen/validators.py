"""Generated validators and shape inference: one Python module and one C file for each op."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opdb.codegen import emit_english, rules_c, rules_python
from opdb.codegen.artifact import Artifact, Catalog, sorted_ops, spec_path
from opdb.codegen.environment import render
from opdb.compiled import CompiledOp, CompiledRule
from opdb.lang.analyse import atoms, free_names
from opdb.lang.nodes import Node

TYPES_SENTENCE = "the data types must be those of one row that {} documents"


def snake(name: str) -> str:
    """The snake-case form of an op's name; ex) LayerNorm -> layer_norm, Conv2d -> conv2d, MatMul -> mat_mul."""
    out = ""
    for i, c in enumerate(name):
        out += ("_" if c.isupper() and i and (not name[i - 1].isupper()) else "") + c.lower()
    return out


@dataclass(frozen=True)
class RuleView:
    """One rule with all that a message shows."""

    rule: CompiledRule
    sentence: str
    path: str  # ex) params.axes: the first slot or parameter that the rule reads
    atoms: tuple[Node, ...]  # readings shown whatever fails
    witness: Node | None  # an `all`: its first failing round is shown too

    @property
    def condition(self) -> Node:
        """The whole condition: `require`, or "not when, or require"."""
        if self.rule.when is None:
            return self.rule.require
        return Node("or", "bool", (Node("not", "bool", (self.rule.when,)), self.rule.require))


def rule_view(op: CompiledOp, rule: CompiledRule) -> RuleView:
    witness = rule.require if rule.require.kind == "comp" and rule.require.value[0] == "all" else None
    parts = ([rule.when] if rule.when is not None else []) + [rule.require]
    shown = tuple(dict.fromkeys(a for p in parts for a in atoms(p)))
    return RuleView(rule, emit_english.rule_sentence(rule.require, rule.when), _path(op, rule), shown, witness)


def _path(op: CompiledOp, rule: CompiledRule) -> str:
    groups = {s.name: "outputs" if s.output else "inputs" for s in op.slots} | {p.name: "params" for p in op.params}
    names = [n for n in free_names(rule.require) if n in groups]
    for group in ("params", "outputs", "inputs"):
        for name in names:
            if groups[name] == group:
                return f"{group}.{name}"
    return ""


def needed_names(op: CompiledOp, nodes: Iterable[Node]) -> set[str]:
    """The names that ``nodes`` read, with those that the named expressions among them read."""
    lets = dict(op.lets)
    found: set[str] = set()
    pending = [n for node in nodes for n in free_names(node)]
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            pending += free_names(lets[name]) if name in lets else ()
            pending += [n for p in op.params if p.name == name and p.default is not None for n in free_names(p.default)]
    return found


def python(catalog: Catalog, name: str) -> Iterable[Artifact]:
    op = catalog.compiled(name)
    text = render("validator.py.j2", **rules_python.view(op))
    yield Artifact(f"generated/python/validators/{snake(name)}.py", text, (spec_path(name),), "python")


def python_registry(catalog: Catalog) -> Iterable[Artifact]:
    ops = [(name, snake(name)) for name in sorted_ops(catalog)]
    inputs = tuple(spec_path(name) for name, _ in ops)
    text = render("validators_init.py.j2", ops=ops, backends=rules_python.backend_names(catalog))
    yield Artifact("generated/python/validators/__init__.py", text, inputs, "python")


def c(catalog: Catalog, name: str) -> Iterable[Artifact]:
    op = catalog.compiled(name)
    text = render("validator.c.j2", **rules_c.view(op))
    yield Artifact(f"generated/c/src/{snake(name)}.c", text, (spec_path(name),), "c")


def c_registry(catalog: Catalog) -> Iterable[Artifact]:
    """The headers that every generated C file includes, and the table of ops."""
    names = sorted(sorted_ops(catalog))  # bsearch with strcmp
    inputs = tuple(spec_path(name) for name in names)
    kernels = [rules_c.kernel_declaration(catalog.compiled(n)) for n in names if catalog.compiled(n).definition.kernel]
    backends = rules_python.backend_names(catalog)
    for path, template in (("include/opdb/kernels.h", "kernels.h.j2"), ("include/opdb/ops.h", "ops.h.j2"), ("src/ops.c", "ops.c.j2")):
        yield Artifact(f"generated/c/{path}", render(template, ops=names, kernels=kernels, backends=backends), inputs, "c")
