"""Compiles expressions of an op (guards of rules, tolerances) to Python functions of an op config.

They are compiled once, from the text that the generator of validators writes for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from opdb.codegen.emit_python import expression
from opdb.codegen.names import local, renamed
from opdb.codegen.rules_python import bound
from opdb.core.op_config import OpConfig
from opdb.generated import validators
from opdb.judge.trial import validator_of
from opdb.runtime import checks
from opdb.runtime.binding import Context, bind
from opdb.runtime.checks import Report
from opdb.spec.definitions import CompiledOp, CompiledRule
from opdb.spec.lang.nodes import BOOL, INT, Name, Node

#: The names that rules may read from the target.
CONTEXT = {f.name: Name(BOOL if f.type == "bool" else INT) for f in fields(Context) if f.name != "backend"}
Reader = Callable[[OpConfig, Context], dict[str, Any]]


def reader(compiled: CompiledOp, nodes: Mapping[str, Node]) -> Reader:
    """A function of (op config, context) -> the value of each node; None for an undecidable one.

    It raises Undecidable for a config that cannot be bound at all (INPUTS, PARAMS, OUTPUTS).
    """
    names = {local(n): known for n, known in compiled.scope.names.items()} | CONTEXT
    arguments = [s.name for s in compiled.inputs] + [p.name for p in compiled.params]
    arguments += [s.name for s in compiled.outputs]

    def text(node: Node) -> str:
        return expression(renamed(node), names)

    lines = [f"def read({', '.join((*map(local, arguments), *CONTEXT))}):"]
    lines += [f"    {local(p.name)}_given = {local(p.name)} is not None" for p in compiled.params]
    lines += [f"    {local(b.symbol)} = {bound(b, names)}" for b in compiled.binds]
    for p in compiled.params:
        if p.default is not None:
            name, value = local(p.name), text(p.default)
            lines += [f"    if {name} is None:", f"        {name} = default(lambda: {value})"]
    lines += [f"    {local(name)} = Let(lambda: {text(node)})" for name, node in compiled.lets]
    pairs = [f"{key!r}: default(lambda: {text(node)})" for key, node in nodes.items()]
    lines.append(f"    return {{{', '.join(pairs)}}}")
    space: dict[str, Any] = dict(vars(checks)) | {
        local(label): value for p in compiled.params for label, value in p.definition.enum.items()
    }
    exec(compile("\n".join(lines), f"<expressions of {compiled.name}>", "exec"), space)
    signature = (validators.module(compiled.name) or validator_of(compiled)).SIGNATURE

    def read(config: OpConfig, context: Context) -> dict[str, Any]:
        report = Report(compiled.name)
        values = bind(config, signature, report)
        report.settle()
        assert values is not None  # otherwise the report has violations
        found: dict[str, Any] = space["read"](*values, *(getattr(context, name) for name in CONTEXT))
        return found

    return read


InForce = Callable[[OpConfig, Context], frozenset[str]]


def in_force(compiled: CompiledOp) -> InForce:
    """A function of (op config, context) -> the full ids of the rules that apply to the config.

    A rule without a guard always applies; a backend's rule only for that backend.
    """
    rules: list[tuple[str | None, CompiledRule]] = [(None, r) for r in (*compiled.ranks, *compiled.rules)]
    rules += [(b, r) for b, group in compiled.backend_rules.items() for r in group]
    read = reader(compiled, {r.id: r.when for _, r in rules if r.when is not None})

    def found(config: OpConfig, context: Context) -> frozenset[str]:
        holds = read(config, context)
        backend = context.backend or ""
        own = [r.id for b, r in rules if b in (None, backend) and (r.when is None or holds[r.id])]
        types = [f"TYPES_{backend}"] if compiled.type_rows.get(backend) else []
        return frozenset(f"{compiled.name}.{i}" for i in (*compiled.signature, *own, *types))

    return found
