"""Questions about what the specs say: ops, params, types, torch, rules."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlalchemy import select

from opdb import schema as t
from opdb.model import unchecked_where
from opdb.query.rows import Op, Record, Row, View, declared, listed


def ops(view: View) -> list[Row]:
    tensors, params, rules = view.parts(t.op_tensor), view.parts(t.op_param), view.parts(t.op_rule)
    backends, torch, kernels = view.parts(t.op_backend), view.parts(t.torch_mapping), view.parts(t.kernel)
    heads = {r.id: r for r in view.all(select(t.definition))}
    wanted = view.ops_of_torch()
    out = []
    for op in view.ops.values():
        slots = view.merged(op, tensors)
        names = [view.backends[b.backend_id].name for b in view.merged(op, backends, "backend_id")]
        if (wanted is not None and op.name not in wanted) or not any(map(view.wants_backend, names or [""])):
            continue
        kernel = [r for d in op.definitions for r in kernels[d]]
        said = [heads[d] for d in reversed(op.definitions)]
        out.append(
            {
                "op": op.name,
                "package": op.row.package,
                "extends": op.base,
                "inputs": listed(_slot(r) for r in slots if not r.output),
                "params": listed(r.name for r in view.merged(op, params)),
                "outputs": listed(_slot(r) for r in slots if r.output),
                "backends": listed(names),
                "torch": listed(r.target for r in view.merged(op, torch, "target")),
                "rules": len(effective_rules(view, op, rules, backends)),
                "kernel": kernel[-1].function if kernel else None,
                "summary": next((h.summary for h in said if h.summary), None),
                "source": next((view.sources[h.source_id] for h in said if h.source_id), None),
            }
        )
    return out


def _slot(row: Record) -> str:
    """A slot as in a signature: xs... is variadic, gamma? optional."""
    return f"{row.name}{'...' if row.variadic else ''}{'?' if row.optional else ''}"


def params(view: View) -> list[Row]:
    parts = view.parts(t.op_param)
    enums = view.children(t.op_enum, "op_param_id", (r.id for rows in parts.values() for r in rows))
    return [
        {
            "op": op.name,
            "param": r.name,
            "type": r.type,
            "dtype": r.dtype,
            "dims": r.dims,
            "optional": bool(r.optional),
            "default": r.default_value,
            "kind": r.kind,
            "enum": listed(f"{e.name}={e.value}" for e in enums[r.id]) or None,
            "inherited": view.inherited(op, r),
            "doc": r.doc,
        }
        for op in view.ops.values()
        for r in view.merged(op, parts)
        if view.dtype in (None, r.dtype)
    ]


def types(view: View) -> list[Row]:
    """The type rows that the asked SDK has, if one is asked about."""
    sdk = view.filters.sdk
    return [r for r in type_rows(view) if sdk is None or declared(r["since"], r["until"], sdk)]


def type_rows(view: View) -> list[Row]:
    """Every documented type row; ``cells`` is slot: dtypes, those between | are all allowed."""
    backends = view.parts(t.op_backend)
    wanted = view.ops_of_torch()
    found: list[tuple[Op, Record, Record]] = []
    configs = view.children(
        t.type_config, "op_backend_id", (r.id for rows in backends.values() for r in rows)
    )
    rows = view.children(t.type_row, "type_config_id", (c.id for group in configs.values() for c in group))
    for op in view.ops.values():
        if wanted is not None and op.name not in wanted:
            continue
        for b in view.merged(op, backends, "backend_id"):
            if view.wants_backend(view.backends[b.backend_id].name):
                found += [(op, b, r) for c in configs[b.id] for r in rows[c.id]]
    cells = view.children(t.type_cell, "type_row_id", (r.id for _, _, r in found))
    config = {c.id: c for group in configs.values() for c in group}
    return [
        {
            "op": op.name,
            "backend": view.backends[b.backend_id].name,
            "config": config[r.type_config_id].name,
            "type_row": r.name,
            "cells": listed(f"{c.slot}: {'|'.join(c.dtypes.split())}" for c in cells[r.id]),
            "since": config[r.type_config_id].since or b.since,
            "until": config[r.type_config_id].until or b.until,
            "source": view.sources.get(config[r.type_config_id].source_id or b.source_id),
        }
        for op, b, r in found
        if view.dtype is None or any(view.dtype in c.dtypes.split() for c in cells[r.id])
    ]


def torch(view: View) -> list[Row]:
    """Every ATen target that has a form: one op, or a decomposition into several."""
    parts = view.parts(t.torch_mapping)
    bindings = view.children(
        t.torch_binding, "torch_mapping_id", (r.id for rows in parts.values() for r in rows)
    )
    out = []
    for op in view.ops.values():
        for m in view.merged(op, parts, "target"):
            if view.wants_torch(m.target):
                head = {"torch_op": m.target, "form": "op", "ops": op.name, "decomposition": None}
                text = _bindings(bindings[m.id], t.BINDING_KINDS)
                out.append(
                    head | {"when": m.guard, "why": m.why} | text | {"source": view.sources.get(m.source_id)}
                )
    return sorted(out + _decompositions(view), key=lambda r: (r["torch_op"], r["form"] != "op", r["ops"]))


def _bindings(rows: list[Record], kinds: tuple[str, ...]) -> dict[str, str | None]:
    text: dict[str, list[str]] = defaultdict(list)
    for r in rows:
        text[r.kind].append(f"{r.name}: {r.expression}")
    return {kind: "; ".join(text[kind]) or None for kind in kinds}


def _decompositions(view: View) -> list[Row]:
    heads = {r.id: r for r in view.all(select(t.decomposition))}
    steps = view.children(t.decomposition_step, "decomposition_id", heads)
    names = view.children(t.decomposition_name, "decomposition_id", heads)
    out = []
    for ident, targets in view.children(t.decomposition_target, "decomposition_id", heads).items():
        head, used = heads[ident], [s.op for s in steps[ident]]
        if view.filters.op is not None and view.filters.op not in used:
            continue
        empty: dict[str, Any] = dict.fromkeys(t.BINDING_KINDS)
        ignored = _bindings([r for r in names[ident] if r.kind == "ignored"], ("ignored",))
        for r in targets:
            if view.wants_torch(r.target):
                row = {
                    "torch_op": r.target,
                    "form": "decomposition",
                    "ops": listed(used),
                    "decomposition": head.name,
                }
                out.append(row | {"when": head.guard, "why": head.why} | empty | ignored | {"source": None})
    return out


def effective_rules(
    view: View, op: Op, parts: dict[int, list[Record]], backends: dict[int, list[Record]]
) -> list[Record]:
    """An op's rules in the order of checking: its own, then each backend's."""
    own = op.definitions[-1]
    own_backends = {r.backend_id for r in backends[own]}  # they take the place of the base's as a whole
    rows = [r for r in view.merged(op, parts) if r.definition_id == own or r.backend_id not in own_backends]
    places = {b: i for i, b in enumerate(view.backends)}
    order = {d: i for i, d in enumerate(op.definitions)}
    kinds = {k: i for i, k in enumerate(t.RULE_KINDS)}

    def key(r: Record) -> tuple[int, int, int, int]:
        return places.get(r.backend_id, -1), kinds[r.kind], order[r.definition_id], int(r.position)

    return sorted(rows, key=key)


def unchecked(view: View) -> dict[tuple[str, str], dict[str, Record]]:
    """(op, rule's full id) -> the backends that do not check the rule, each with the row that says so."""
    parts = view.parts(t.op_backend)
    entries = view.children(t.unchecked, "op_backend_id", (r.id for rows in parts.values() for r in rows))
    found: dict[tuple[str, str], dict[str, Record]] = defaultdict(dict)
    for op in view.ops.values():
        for b in view.merged(op, parts, "backend_id"):
            for entry in entries[b.id]:
                found[op.name, f"{op.name}.{entry.rule}"][view.backends[b.backend_id].name] = entry
    return found


def rules(view: View) -> list[Row]:
    """Every rule, written and derived; ``rule`` is its permanent id."""
    parts, backends, exempt = view.parts(t.op_rule), view.parts(t.op_backend), unchecked(view)
    out = []
    for op in view.ops.values():
        for r in effective_rules(view, op, parts, backends):
            backend = None if r.backend_id is None else view.backends[r.backend_id].name
            if view.filters.backend in (None, backend):
                out.append(
                    {
                        "op": op.name,
                        "rule": f"{op.name}.{r.name}",
                        "backend": backend,
                        "kind": r.kind,
                        "strength": r.strength,
                        "unchecked": listed(
                            unchecked_where(name, e.since, e.until)
                            for name, e in exempt.get((op.name, f"{op.name}.{r.name}"), {}).items()
                        )
                        or None,
                        "when": r.guard,
                        "expression": r.expression or None,
                        "why": r.why,
                        "inherited": view.inherited(op, r),
                        "source": view.sources.get(r.source_id),
                    }
                )
    return out


def backends(view: View) -> list[Row]:
    return [
        {"backend": b.name, "id": b.number, "letter": b.letter, "context": b.context}
        for b in view.backends.values()
        if view.wants_backend(b.name)
    ]


def socs(view: View) -> list[Row]:
    rows = sorted(view.all(select(t.soc)), key=lambda r: str(r.chip))
    wanted = view.filters.soc
    return [
        {"soc": r.chip, "soc_model": r.soc_model, "htp_arch": r.htp_arch}
        for r in rows
        if wanted in (None, r.chip)
    ]
