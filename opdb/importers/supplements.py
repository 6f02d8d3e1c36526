"""What a backend's supplement adds to an op: its type rows, and rules with the condition they hold under.

A rule that the document gives for some configurations gets a guard on data types, unless its own condition
picks types that occur nowhere else; one that the type rows or the shapes imply is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from opdb.dtypes import BY_SHORT
from opdb.importers import observed
from opdb.importers.naming import Names
from opdb.importers.rows import Row, compact
from opdb.importers.symbolic import Condition, expression, translate
from opdb.reference import DocumentedBackend, DocumentedOp, observed_dtypes, observed_source

CHAIN = "The result of a chain of ops on static tensors is accepted as well."
DIRECT = (
    "only_value",
    "value_allowed",
    "value_relation",
    "value_cmp",
    "value_range",
    "unique",
    "dim_relation",
    "rank_same",
)
#: Kinds that ask for nothing that an op config can show.
SILENT = ("dynamic_dims_unsupported", "updateable_quant", "ignored_if")


@dataclass(frozen=True)
class Supplement:
    source: str
    rows: dict[str, list[Row]]  # by configuration
    origins: dict[str, dict[str, str]]  # of configurations that are not the document's
    rules: list[Condition]
    words: list[str]  # facts that no rule expresses


def of_backend(
    op: DocumentedOp, backend: DocumentedBackend, names: Names, shapes: dict[str, Any]
) -> Supplement:
    """``shapes``: the entries of the spec's inputs and outputs by name."""
    rows, missing = _rows(op, backend, names)
    source = backend.source
    if missing and not any(s.slot in cells for _, cells in backend.rows for s in (*op.inputs, *op.outputs)):
        uniform = observed_dtypes(op.name) if backend.name == "CPU" else ()
        if uniform:
            every: list[Row] = [{names.of(s.slot): (d,) for s in (*op.inputs, *op.outputs)} for d in uniform]
            rows, missing, source = {"observed": every}, [], observed_source(backend.name)
    reader = _Reader(op, backend, names, shapes, {} if missing else rows)
    reader.read()
    words = [*reader.words, *(f"types of {m}" for m in missing)]
    compacted = {config: compact(group) for config, group in rows.items()} if not missing else {}
    origins: dict[str, dict[str, str]] = {}
    if backend.name == "HTP" and not missing:
        compacted, origins = observed.merge(op, names, compacted)
    return Supplement(source, compacted, origins, list(dict.fromkeys(reader.rules)), words)


def _rows(
    op: DocumentedOp, backend: DocumentedBackend, names: Names
) -> tuple[dict[str, list[Row]], list[str]]:
    """The rows by configuration with a cell for every slot, and the slots whose cells the document lacks."""
    out: dict[str, list[Row]] = {}
    missing: dict[str, None] = {}
    for config, cells in backend.rows:
        row: Row = {}
        for t in (*op.inputs, *op.outputs):
            cell = tuple(d for d in cells.get(t.slot, t.dtypes) if d in BY_SHORT)
            if not cell:
                missing.setdefault(t.slot)
            row[names.of(t.slot)] = cell
        out.setdefault(config, []).append(row)
    return out, list(missing)


@dataclass
class _Reader:
    op: DocumentedOp
    backend: DocumentedBackend
    names: Names
    shapes: dict[str, Any]
    rows: dict[str, list[Row]]

    def __post_init__(self) -> None:
        self.rules: list[Condition] = []
        self.words: list[str] = []
        self.optional = {self.names.of(t.slot) for t in self.op.inputs if not t.mandatory}
        self.main = self.names.of(self.op.inputs[0].slot) if self.op.inputs else ""
        self.limits: dict[str, list[str]] = {}  # slot -> keys of its rank rules

    def read(self) -> None:
        for slot, groups in self.backend.slots.items():
            own = self.names.of(slot)
            for group, entries in groups.items():
                for fact, configs in _merged(entries):
                    kind = fact.get("kind", group)
                    found = None if kind in SILENT else self._rules(kind, fact, own, configs)
                    self.rules += found or []
                    if found is None and kind not in SILENT:
                        self.words.append(f"{own} ({', '.join(configs)}): {fact['expr']}")

    # -- one fact

    def _rules(self, kind: str, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """The rules that a fact makes; [] where others imply it, None where nothing expresses it."""
        method = getattr(self, f"_{kind}", None)
        found: list[Condition] | None = None
        if method is not None:
            found = method(fact, own, configs)
        elif kind in DIRECT and (own in self.names.params or kind not in ("value_range", "unique")):
            found = [translate(fact["expr"], self.names, own)]
        guarded = [self._guarded(rule, own, configs) for rule in found or ()]
        return None if found is None or None in guarded else [g for g in guarded if g is not None]

    def _guarded(self, rule: Condition, own: str, configs: tuple[str, ...]) -> Condition | None:
        """The rule under its configurations; None where data types do not tell them apart."""
        parts = [f"present({own})"] if own in self.optional and "present(" not in rule.require else []
        if not self._everywhere(configs) and not self._own_types(rule, own, configs):
            guard = self._config_guard(configs)
            if guard is None:
                return None
            parts.append(guard)
        if rule.when is not None:
            parts.append(rule.when)
        return replace(rule, when=" and ".join(parts) or None)

    def _everywhere(self, configs: tuple[str, ...]) -> bool:
        return "All" in configs or set(self.rows) <= set(configs)

    def _own_types(self, rule: Condition, own: str, configs: tuple[str, ...]) -> bool:
        """Whether the rule's condition picks types of ``own`` that occur in ``configs`` only."""
        elsewhere = self._types(own, tuple(c for c in self.rows if c not in configs))
        picked = [
            d for d in self._types(own, configs) if rule.when and _mentions(rule.when, f"{own}.dtype", d)
        ]
        return bool(picked) and not set(picked) & set(elsewhere)

    def _config_guard(self, configs: tuple[str, ...]) -> str | None:
        """A condition on the types of the first slot whose types tell the configurations apart."""
        rest = tuple(c for c in self.rows if c not in configs)
        for slot in [self.main, *(n for n in self.names.slots.values() if n not in self.optional)]:
            inside = self._types(slot, configs)
            if inside and not set(inside) & set(self._types(slot, rest)):
                return _is_in(f"{slot}[0].dtype" if slot in self.names.variadic else f"{slot}.dtype", inside)
        return None

    def _types(self, own: str, configs: tuple[str, ...]) -> list[str]:
        """The types that a slot has in the rows of ``configs``, in the document's order."""
        found: dict[str, None] = {}
        for config in configs if "All" not in configs else tuple(self.rows):
            for row in self.rows.get(config, ()):
                found.update(dict.fromkeys(row.get(own, ())))
        return list(found)

    def _when(self, text: str | None, own: str, configs: tuple[str, ...]) -> str | None:
        """The condition of a fact about a tensor: its dtype, encoding or bit width."""
        if text is None:
            return None
        if text == "bitwidth == 16" or text.startswith("16-bit "):
            wide = [d for d in self._types(own, configs) if BY_SHORT[d].quantized and BY_SHORT[d].bits == 16]
            return _is_in(f"{own}.dtype", wide) if wide else None
        for word in ("dtype", "encoding"):
            if text.startswith(f"{word} "):
                return f"{own}.{text}"
        return expression(text, self.names, own)

    # -- kinds

    def _rank(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition]:
        if self._implied_rank(fact, own, configs):
            return []
        self.limits.setdefault(own, []).append(
            str((fact.get("min"), fact.get("max"), fact.get("when"), configs))
        )
        text = fact["expr"].partition(" if ")[0]
        rule = Condition(
            expression(text, self.names, own), fact["expr"], self._when(fact.get("when"), own, configs)
        )
        if own in self.names.variadic:
            v = own[0] if own[0] not in {*self.names.slots.values(), *self.names.params} else "t"
            rule = replace(rule, require=f"all({rule.require.replace(f'{own}.', f'{v}.')} for {v} in {own})")
        return [rule]

    def _implied_rank(self, fact: Any, own: str, configs: tuple[str, ...]) -> bool:
        """Whether the slot's shape, and the limits of the inputs, say it already."""
        entry = self.shapes.get(own)
        shape = entry.get("shape") if isinstance(entry, dict) else entry
        if isinstance(shape, list) and shape and not shape[0].endswith("..."):
            return bool(fact.get("min", 0) <= len(shape) <= fact.get("max", len(shape)))
        if own == self.main:
            return False
        key = str((fact.get("min"), fact.get("max"), fact.get("when"), configs))
        whole = f"({fact.get('min')}, {fact.get('max')}, None, ('All',))"
        main = self.shapes.get(self.main)
        of_main = bool({key, whole} & set(self.limits.get(self.main, ())))
        if shape == (main.get("shape") if isinstance(main, dict) else main):
            return of_main
        if isinstance(shape, str) and shape.startswith("broadcast("):
            limited = [s for s, limits in self.limits.items() if {key, whole} & set(limits)]
            return len(limited) == len(self.op.inputs)
        no_larger = isinstance(shape, str) and shape.startswith(("gather(S", "reduced(S", "replace(S"))
        parts = own in self.names.variadic and isinstance(entry, dict) and "count" in entry
        joined = isinstance(shape, str) and shape.startswith(f"replace({self.main}[0]")
        return of_main and (no_larger or parts or joined)

    def _static(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition]:
        chain = bool(fact.get("or_static_chain"))
        when = self._when(fact.get("when"), own, configs)
        return [Condition(f"{own}.static", fact["expr"], when, chain, CHAIN if chain else None)]

    def _quant_symmetric(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        when = self._when(fact.get("when"), own, configs)
        if fact.get("when") and when is None:
            return []  # no row has such a type
        if fact.get("encodings"):
            when = _is_in(f"{own}.encoding", fact["encodings"])
        signed = [d for d in self._types(own, configs) if d.startswith("sq")] if fact.get("signed") else []
        if own in self.names.variadic:
            return None
        require = f"{own}.symmetric" + (f" and {_is_in(f'{own}.dtype', signed)}" if signed else "")
        return [Condition(require, fact["expr"], when)]

    def _quant_encoding(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        when = self._when(fact.get("when"), own, configs)
        if not fact.get("encodings"):
            return None
        return [Condition(_is_in(f"{own}.encoding", fact["encodings"]), fact["expr"], when)]

    def _quant_axis(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        entry = self.shapes.get(own)
        shape = entry.get("shape") if isinstance(entry, dict) else entry
        if not isinstance(shape, list) or shape[0].endswith("..."):
            return None
        word = self.names.symbols.get(fact["axis"], fact["axis"])
        filters = isinstance(entry, dict) and "layout" in entry
        axis = (
            len(shape) - 1
            if filters and fact["axis"] == "channel"
            else shape.index(word)
            if word in shape
            else None
        )
        when = _is_in(f"{own}.encoding", fact["encodings"]) if fact.get("encodings") else None
        return None if axis is None else [Condition(f"{own}.axis == {axis}", fact["expr"], when)]

    def _quant_pair(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition]:
        other = self.names.of(fact["other"])
        wide = [
            row
            for c in configs
            for row in self.rows.get(c, ())
            if any(_bits(d) == fact["self_bits"] for d in row[own])
        ]
        if all(_bits(d) == fact["other_bits"] for row in wide for d in row[other]):
            return []  # the type rows say so
        mine, theirs = (
            [d for d in self._types(s, configs) if _bits(d) == fact["self_bits"]] for s in (own, other)
        )
        return (
            [Condition(_is_in(f"{other}.dtype", theirs), fact["expr"], _is_in(f"{own}.dtype", mine))]
            if theirs
            else []
        )

    def _min_arch(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition]:
        when = self._when(fact.get("when"), own, configs)
        if fact.get("when") and when is None:
            return []
        return [Condition(f"arch >= {int(fact['arch'].lstrip('Vv'))}", fact["expr"], when)]

    def _only_default(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        p = next((p for p in self.op.params if p.name == own), None)
        if p is None:
            return None
        if not fact["expr"].endswith("default"):
            rule = translate(fact["expr"], self.names, own)
            if p.dtype == "bool8":  # a flag is not compared with a number
                return [replace(rule, require=own if fact.get("value") else f"not {own}")]
            return [rule]
        if p.enum or isinstance(p.default, (bool, list, dict)) or p.default is None:
            return [Condition(f"not present({own})", fact["expr"])] if not p.mandatory else None
        return [
            Condition(f"{own} == {float(p.default) if p.dtype.startswith('f') else p.default}", fact["expr"])
        ]

    def _slot_unsupported(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        return [Condition(f"not present({own})", fact["expr"])] if own in self.optional else None

    def _dtype_by_operation(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """One rule for the operations that take the same types, as far as the rows narrow them at all."""
        if not fact.get("table"):
            return None
        rows = self._types(own, configs)
        groups: dict[tuple[str, ...], list[str]] = {}
        for operation, types in fact["table"].items():
            groups.setdefault(tuple(d for d in rows if d in types), []).append(operation)
        out = []
        for kept, operations in groups.items():
            if kept and set(kept) != set(rows):
                out.append(
                    Condition(_is_in(f"{own}.dtype", kept), fact["expr"], _is_in(fact["by"], operations))
                )
            elif not kept and own == self.main:
                out.append(Condition(_is_in(fact["by"], operations, "not in"), fact["expr"]))
        return out


def _merged(entries: Sequence[Any]) -> list[tuple[Any, tuple[str, ...]]]:
    """Facts that differ in their configuration only, together with all of them."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for entry in entries:
        key = str({k: v for k, v in entry.items() if k != "config"})
        found.setdefault(key, (entry, []))[1].append(entry["config"])
    return [(fact, tuple(dict.fromkeys(configs))) for fact, configs in found.values()]


def _bits(dtype: str) -> int:
    return BY_SHORT[dtype].bits


def _mentions(text: str, attribute: str, dtype: str) -> bool:
    """Whether a condition asks for a type of a slot; ex) "gamma.dtype in (uq16, sq16)"."""
    return attribute in text and dtype in text.replace("(", " ").replace(")", " ").replace(",", " ").split()


def _is_in(what: str, choices: Sequence[str], word: str = "in") -> str:
    if len(choices) == 1:
        return f"{what} {'==' if word == 'in' else '!='} {choices[0]}"
    return f"{what} {word} ({', '.join(choices)})"
