"""Documentation: one page per op, always with the same headings, and the index of pages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opdb.catalog.facts.signature import torch_schema
from opdb.codegen import evidence, statuses, torch_ops
from opdb.codegen.artifact import Artifact, all_specs, backend_paths, family_path, sorted_ops, specs_of
from opdb.codegen.environment import render
from opdb.codegen.rules import needs, rule_nodes, rule_view
from opdb.runtime.binding import TYPES_SENTENCE
from opdb.runtime.checks import Strength
from opdb.runtime.errata import record_path
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, CompiledRule, TypeRow
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.printer import to_text
from opdb.spec.model import ParamDef, TensorDef, TorchMapping, unchecked_where

#: Sentences of the rules that every op has; these rules have no expression.
SIGNATURE = {
    "INPUTS": "the inputs must be those of the table: none missing but optional ones, none besides",
    "PARAMS": "the parameters must be those of the table, each with its data type and shape",
    "OUTPUTS": "the outputs must be those of the table",
    "UNKNOWN_PARAMS": "every parameter must be one of the table",
}


#: The effect of breaking a rule, by strength, for its line in the page.
EFFECTS: dict[Strength, str] = {
    "require": "",
    "expect": " (a warning)",
}


@dataclass(frozen=True)
class RuleDoc:
    id: str
    sentence: str
    expression: str = ""
    when: str = ""
    why: str = ""
    source: str = ""
    effect: str = ""  # the effect of breaking it, if the op is still accepted
    unchecked: tuple[tuple[str, str, str], ...] = ()  # (backend and SDKs, source, why)


@dataclass(frozen=True)
class SlotDoc:
    name: str
    shape: str
    notes: str  # e.g. optional, static
    rules: tuple[str, ...]
    doc: str = ""


@dataclass(frozen=True)
class ParamDoc:
    name: str
    type: str
    default: str  # "" if there is none
    absent: str  # the behavior without a value
    values: str  # enum values
    rules: tuple[str, ...]
    doc: str = ""


def view(catalog: Catalog, name: str) -> dict[str, Any]:
    """The view of an op's definition; for docs/ops/<Op>.md and for the site."""
    op = catalog.compiled(name)
    definition = op.definition
    uses = _uses(op)
    return {
        "op": definition,
        "lets": list(definition.let.items()),
        "inputs": [_slot(n, d, uses) for n, d in definition.inputs.items()],
        "outputs": [_slot(n, d, uses) for n, d in definition.outputs.items()],
        "params": [_param(n, d, uses) for n, d in definition.params.items()],
        "groups": _groups(op),
        "tables": _tables(op),
        "errata": catalog.errata_of(name),
        "mappings": [(t, m, _arguments(m), _ignored(t, m)) for t, m in catalog.mappings(name).items()],
        "schema": torch_ops.schema(op),
        "quant": [(key, _short(value)) for key, value in definition.quant.items()],
        "tolerance": list(definition.tolerance.items()),
        "samples": [", ".join(f"{k}: {_short(v)}" for k, v in s.items()) for s in definition.samples],
        "rule_count": len(op.rule_ids()),
    }


def pages(catalog: Catalog, name: str) -> Iterable[Artifact]:
    """Renders docs/ops/<Op>.md."""
    families = (family_path(c.family) for c in catalog.candidates if c.op == name)
    errata = (record_path(e.erratum) for e in catalog.errata_of(name))
    inputs = (*specs_of(catalog, name), *dict.fromkeys(families), *errata, evidence.input_path())
    yield Artifact(
        f"generated/docs/ops/{name}.md",
        render(
            "op.md.j2",
            **view(catalog, name),
            measured=statuses.page(catalog, catalog.compiled(name)),
            erratum_path=record_path,
        ),
        inputs,
        "markdown",
    )


def index(catalog: Catalog) -> Iterable[Artifact]:
    """Renders docs/index.md and docs/backends.md."""
    ops = [catalog.ops[name] for name in sorted_ops(catalog)]
    text = render("index.md.j2", operators=operators(catalog), ops=ops)
    yield Artifact("generated/docs/index.md", text, all_specs(catalog), "markdown")
    counts = [(b, sum(name in op.backends for op in ops)) for name, b in catalog.backends.items()]
    inputs = (*all_specs(catalog), *backend_paths(catalog))
    yield Artifact(
        "generated/docs/backends.md", render("backends.md.j2", backends=counts), inputs, "markdown"
    )


def operators(catalog: Catalog) -> Counter[str]:
    """The number of PyTorch operators that become each op, alone or in a chain."""
    uses = {(op, target) for op in catalog.ops for target in catalog.mappings(op)}
    uses |= {(op, target) for c in catalog.candidates for op in c.ops for target in c.torch}
    return Counter(op for op, _ in uses)


def _short(value: object) -> str:
    """Spec data in approximately YAML's flow style."""
    return value if isinstance(value, str) else json.dumps(value).replace('"', "")


def _slot(name: str, d: TensorDef, uses: Mapping[str, tuple[str, ...]]) -> SlotDoc:
    shape = "any" if d.shape is None else d.shape if isinstance(d.shape, str) else f"[{', '.join(d.shape)}]"
    notes = [word for word in ("optional", "static") if getattr(d, word)]
    if d.variadic:
        notes.append(
            f"{d.count} tensors, the one at {d.index}" if d.count else f"any number, at least {d.min}"
        )
    notes += [d.layout] if d.layout else []
    notes += [" or ".join(d.dtype)] if d.dtype else []
    return SlotDoc(name, shape, ", ".join(notes), uses[name], d.doc or "")


def _param(name: str, d: ParamDef, uses: Mapping[str, tuple[str, ...]]) -> ParamDoc:
    type_ = d.base + "".join(f"[{'' if n is None else n}]" for n in d.dims)
    absent = "" if d.default is not None else "may be absent" if d.optional else "must be given"
    values = ", ".join(f"{k} = {v}" for k, v in d.enum.items())
    return ParamDoc(name, type_, d.default or "", absent, values, uses[name], d.doc or "")


def _uses(op: CompiledOp) -> dict[str, tuple[str, ...]]:
    """Maps each slot and parameter to the ids of rules that read it, directly or through symbols and lets."""
    symbols = {b.symbol: free_names(b.value) for b in op.binds}
    out: dict[str, list[str]] = {
        name: [] for name in (*(s.name for s in op.slots), *(p.name for p in op.params))
    }
    for rule in (*op.ranks, *op.rules, *(r for b in op.definition.backends for r in op.backend_rules[b])):
        needed = needs(op, rule_nodes([rule]))
        read = set(needed.values | needed.asked)
        read |= {n for symbol in read & set(symbols) for n in symbols[symbol]}
        for name, ids in out.items():
            if name in read:
                ids.append(rule.id)
    return {name: tuple(ids) for name, ids in out.items()}


def _rule(op: CompiledOp, rule: CompiledRule) -> RuleDoc:
    return RuleDoc(
        rule.id,
        rule_view(op, rule).sentence,
        rule.text or to_text(rule.require),
        "" if rule.when is None else to_text(rule.when),
        rule.why or "",
        rule.source or "",
        EFFECTS[rule.strength],
        _unchecked(op, rule.id),
    )


def _unchecked(op: CompiledOp, rule: str) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        (unchecked_where(name, entry.since, entry.until), entry.source, entry.why or "")
        for name, entry in op.unchecked(rule).items()
    )


def _groups(op: CompiledOp) -> list[tuple[str, str, list[RuleDoc]]]:
    """Groups of (heading, source, rules): the op definition, then each backend."""
    own = [RuleDoc(i, SIGNATURE[i], unchecked=_unchecked(op, i)) for i in op.signature]
    own += [_rule(op, r) for r in (*op.ranks, *op.rules)]
    groups = [("Op definition", op.definition.source or "", own)]
    for name, backend in op.definition.backends.items():
        rules = [_rule(op, r) for r in op.backend_rules[name]]
        if op.type_rows[name]:
            rules.append(RuleDoc(f"TYPES_{name}", TYPES_SENTENCE.format(name)))
        groups.append((name, backend.source or "", rules))
    return groups


def _origin(row: TypeRow, usual: str | None) -> str:
    """The SDKs that have a row, and its source if it differs from the table's."""
    parts = [f"since {row.since}"] * bool(row.since) + [f"until {row.until}"] * bool(row.until)
    return ", ".join([*parts, *([row.source] if row.source and row.source != usual else [])])


def _tables(op: CompiledOp) -> list[tuple[str, str, list[tuple[str, list[str], str]]]]:
    """Tables (backend, source, rows); a row has its id, a cell per slot, and its SDKs and origin if not ``source``."""
    tables = []
    for name, backend in op.definition.backends.items():
        rows = [
            (r.id.partition(".")[2], [" ".join(c) for c in r.cells.values()], _origin(r, backend.source))
            for r in op.type_rows[name]
        ]
        tables.append((name, backend.source or "", rows))
    return tables


def _arguments(mapping: TorchMapping) -> list[tuple[str, str, str]]:
    """Rows (kind, name in QNN, expression over the names of the ATen schema)."""
    rows = [("input", name, text) for name, text in mapping.inputs.items()]
    rows += [("if None", name, text) for name, text in mapping.absent.items()]
    rows += [("parameter", name, text) for name, text in mapping.params.items()]
    for name, text in mapping.outputs.items():
        rows.append(("output", name, f"result {text}" if text.isdigit() else text))
    return rows


def _ignored(target: str, mapping: TorchMapping) -> list[tuple[str, str]]:
    """The ignored arguments that ``target`` has, because the mapping may also serve other targets."""
    own = {a.name for a in torch_schema(target, mapping.signature).arguments}
    return [(name, why) for name, why in mapping.ignored.items() if name in own]
