"""A backend's additions to an op, from its supplement: type rows, and rules with their conditions.

A rule for some configurations gets a guard on data types, unless its own condition
picks types that occur nowhere else; a rule that follows from the type rows or the shapes is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opdb.author.importers import phrases, probed_rows
from opdb.author.importers.naming import Names
from opdb.author.importers.rows import Row, compact
from opdb.author.importers.symbolic import Condition, expression, translate
from opdb.catalog.facts import (
    DocumentedBackend,
    DocumentedOp,
    DocumentedParam,
    observed_dtypes,
    observed_source,
)
from opdb.core.dtypes import BY_SHORT
from opdb.generated.constants.backends import BACKENDS

CHAIN = "The result of a chain of ops on static tensors is accepted as well."
DIRECT = (
    "value_allowed",
    "value_relation",
    "value_cmp",
    "value_range",
    "unique",
    "dim_relation",
    "broadcast",
    "rank_same",
    "shape_same",
    "dtype_same",
)
#: Kinds about a slot that its shape in the spec states if it follows from other slots or parameters.
OF_SHAPES = ("broadcast", "dim_relation", "rank_relation", "shape_same")
#: The operations in a class that a document names.
CLASSES = {
    "comparison": ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"),
    "logical": ("AND", "NOT", "OR", "XOR"),
}
#: Kinds without a requirement that an op config can show.
SILENT = ("dynamic_dims_unsupported", "updateable_quant", "ignored_if")


@dataclass(frozen=True)
class Supplement:
    source: str
    rows: dict[str, list[Row]]  # by configuration
    origins: dict[str, dict[str, str]]  # of configurations that are not in the document
    rules: list[Condition]
    words: list[str]  # facts that no rule expresses


def of_backend(
    op: DocumentedOp, backend: DocumentedBackend, names: Names, shapes: dict[str, Any]
) -> Supplement:
    """Reads a backend's supplement.  ``shapes``: the entries of the spec's inputs and outputs by name."""
    rows, missing, words = _rows(op, backend, names)
    source = backend.source
    if missing and not any(s.slot in cells for _, cells in backend.rows for s in (*op.inputs, *op.outputs)):
        uniform = observed_dtypes(backend.name, op.name)
        if uniform:
            every: list[Row] = [{names.of(s.slot): (d,) for s in (*op.inputs, *op.outputs)} for d in uniform]
            rows, missing, source = {"observed": every}, [], observed_source(backend.name)
    reader = _Reader(op, backend, names, shapes, {} if missing else rows)
    reader.read()
    words += [*reader.words, *(f"types of {m}" for m in missing)]
    compacted = {config: compact(group) for config, group in rows.items()} if not missing else {}
    origins: dict[str, dict[str, str]] = {}
    if not missing:
        compacted, origins = probed_rows.merge(op, backend.name, names, compacted)
    return Supplement(source, compacted, origins, list(dict.fromkeys(reader.rules)), words)


def _rows(
    op: DocumentedOp, backend: DocumentedBackend, names: Names
) -> tuple[dict[str, list[Row]], list[str], list[str]]:
    """The rows by configuration with a cell for every slot, the slots without known types, and words.

    A slot that a table omits gets the types of its definition, or else of the first slot next to it, since
    the document describes tensors that go together.
    """
    out: dict[str, list[Row]] = {}
    missing: dict[str, None] = {}
    words: dict[str, None] = {}
    for config, cells in backend.rows:
        row: Row = {}
        for group in (op.inputs, op.outputs):
            given = {t.slot: tuple(d for d in cells.get(t.slot, t.dtypes) if d in BY_SHORT) for t in group}
            first = next((c for t in group if t.slot in cells and (c := given[t.slot])), ())
            first = first or (next(iter(row.values()), ()) if group is op.outputs else ())
            for t in group:
                cell = given[t.slot]
                if not cell and first and t.slot not in cells and not _asked(backend):
                    cell = first
                    if not _never(backend, t.slot):
                        as_ = ", ".join(first)
                        words.setdefault(
                            f"{names.of(t.slot)}: the table leaves out its types; {as_} stand for them"
                        )
                if not cell:
                    missing.setdefault(t.slot)
                row[names.of(t.slot)] = cell
        out.setdefault(config, []).append(row)
        words |= dict.fromkeys(_beside_tensors(op, cells))
    return out, list(missing), list(words)


def _asked(backend: DocumentedBackend) -> bool:
    """True if the backend's library was asked for facts that a table omits."""
    record = BACKENDS.get(backend.name)
    return record is not None and record.asked


def _never(backend: DocumentedBackend, slot: str) -> bool:
    """True if the backend accepts no tensor in the slot."""
    facts = backend.slots.get(slot, {}).get("constraints", ())
    return any(f["kind"] in ("slot_unsupported", "only_default") for f in facts)


def _beside_tensors(op: DocumentedOp, cells: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Facts in a table about slots that the op lacks, and parameter types that differ from the op's."""
    slots = {t.slot for t in (*op.inputs, *op.outputs)}
    of_params = {p.name: (p.dtype,) for p in op.params}
    rest = [(s, c) for s, c in cells.items() if s not in slots and s in of_params and c != of_params[s]]
    unknown = [(s, c) for s, c in cells.items() if s not in slots and s not in of_params]
    return [
        *(f"{name} has one of the types {', '.join(cell)}" for name, cell in rest if len(cell) > 1),
        *(f"{slot} ({', '.join(cell)}): the op definition has no such slot" for slot, cell in unknown),
    ]


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
        self.first = f"{self.main}[0]" if self.main in self.names.variadic else self.main
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
        """The rules for a fact; [] if others imply it, None if no rule can express it."""
        method = getattr(self, f"_{kind}", None)
        found: list[Condition] | None = None
        if method is not None:
            found = method(fact, own, configs)
        elif kind in DIRECT and (own in self.names.params or kind not in ("value_range", "unique")):
            found = self._direct(kind, fact, own)
        guarded = [self._guarded(rule, own, configs) for rule in found or ()]
        return None if found is None or None in guarded else [g for g in guarded if g is not None]

    def _direct(self, kind: str, fact: Any, own: str) -> list[Condition] | None:
        """The fact's own text as a rule; [] if the slot's shape follows from others and so states it."""
        entry = self.shapes.get(own)
        shape = entry.get("shape") if isinstance(entry, dict) else entry
        if kind in OF_SHAPES and isinstance(shape, str) and shape != "any":
            return []
        if fact.get("required"):
            return None
        if fact["expr"].startswith("for d != channel: shape(in[i])[d] == shape(in[0])[d]"):
            return []  # every definition of such an op states it
        return [translate(phrases.plain(fact["expr"], self.names, own, self.first), self.names, own)]

    def _guarded(self, rule: Condition, own: str, configs: tuple[str, ...]) -> Condition | None:
        """The rule restricted to its configurations; None if data types do not distinguish them."""
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
        """True if the rule's condition picks types of ``own`` that only occur in ``configs``."""
        elsewhere = self._types(own, tuple(c for c in self.rows if c not in configs))
        picked = [
            d for d in self._types(own, configs) if rule.when and _mentions(rule.when, f"{own}.dtype", d)
        ]
        return bool(picked) and not set(picked) & set(elsewhere)

    def _config_guard(self, configs: tuple[str, ...]) -> str | None:
        """A condition on the types of the first slot whose types distinguish the configurations; None if there is none."""
        rest = tuple(c for c in self.rows if c not in configs)
        for slot in [self.main, *(n for n in self.names.slots.values() if n not in self.optional)]:
            inside = self._types(slot, configs)
            if inside and not set(inside) & set(self._types(slot, rest)):
                return _is_in(f"{slot}[0].dtype" if slot in self.names.variadic else f"{slot}.dtype", inside)
        return None

    def _types(self, own: str, configs: tuple[str, ...]) -> list[str]:
        """The types of a slot in the rows of ``configs``, in the document's order."""
        found: dict[str, None] = {}
        for config in configs if "All" not in configs else tuple(self.rows):
            for row in self.rows.get(config, ()):
                found.update(dict.fromkeys(row.get(own, ())))
        return list(found)

    def _when(self, text: str | None, own: str, configs: tuple[str, ...]) -> str | None:
        """The condition of a fact about a tensor: its dtype, encoding, or bit width."""
        if text is None:
            return None
        if text == "bitwidth == 16" or text.startswith("16-bit "):
            wide = [d for d in self._types(own, configs) if BY_SHORT[d].quantized and BY_SHORT[d].bits == 16]
            return _is_in(f"{own}.dtype", wide) if wide else None
        for word in ("dtype", "encoding"):
            if text.startswith(f"{word} "):
                return f"{own}[0].{text}" if own in self.names.variadic else f"{own}.{text}"
        return expression(text, self.names, own)

    # -- kinds

    def _rank(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition]:
        if self._implied_rank(fact, own, configs) or (own in self.names.params and "of" not in fact):
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
        """True if the slot's shape, or the limits of the inputs, already state it."""
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
        typed = (fact.get("when") or "").removeprefix("dtype == ")
        if typed in BY_SHORT and typed not in self._types(own, configs):
            return []  # no row has such a type
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
        if fact.get("not_encodings"):
            return [Condition(_is_in(f"{own}.encoding", fact["not_encodings"], "not in"), fact["expr"], when)]
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
            return []  # the type rows state it
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
        if p is None and own in self.optional and not self._in_table(own):
            return [Condition(f"not present({own})", fact["expr"])]
        if p is None:
            return None
        if fact["expr"].endswith("default"):
            if p.default is None or isinstance(p.default, (list, dict)):
                return [Condition(f"not present({own})", fact["expr"])] if not p.mandatory else None
            return [Condition(_equals(p, p.default), fact["expr"])]
        if "value" in fact and not isinstance(fact["value"], str):
            return [replace(translate(fact["expr"], self.names, own), require=_equals(p, fact["value"]))]
        return [translate(fact["expr"], self.names, own)]

    def _only_value(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        p = next((p for p in self.op.params if p.name == own), None)
        if p is not None and isinstance(fact.get("value"), bool):
            return self._only_default(fact, own, configs)
        return self._direct("only_value", fact, own)

    def _value_denied(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """Returns no rule if the document also states which values are allowed."""
        others = self.backend.slots.get(own, {}).get("constraints", ())
        allowed = any(f["kind"] == "value_allowed" and f["config"] in configs for f in others)
        return [] if allowed else self._direct("value_denied", fact, own)

    def _in_table(self, own: str) -> bool:
        """True if the document has types for a slot."""
        return any(self.names.of(slot) == own for _, cells in self.backend.rows for slot in cells)

    def _slot_unsupported(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        known = own in self.optional or any(p.name == own and not p.mandatory for p in self.op.params)
        return [Condition(f"not present({own})", fact["expr"])] if known else None

    def _dtype_by_operation(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """One rule for all operations with the same types, if these are fewer than in the rows."""
        if fact.get("only") and "=>" in fact["expr"]:
            return [translate(fact["expr"], self.names, own)]
        if not fact.get("table"):
            return None
        rows = self._types(own, configs)
        groups: dict[tuple[str, ...], list[str]] = {}
        for word, types in fact["table"].items():
            groups.setdefault(tuple(d for d in rows if d in types), []).extend(self._operations(word, fact))
        out = []
        for kept, operations in groups.items():
            if kept and set(kept) != set(rows):
                out.append(
                    Condition(_is_in(f"{own}.dtype", kept), fact["expr"], _is_in("operation", operations))
                )
            elif not kept and own == self.main:
                out.append(Condition(_is_in("operation", operations, "not in"), fact["expr"]))
        return out

    def _operations(self, word: str, fact: Any) -> list[str]:
        """The values of ``operation`` in a table's line: its name, or all of a class."""
        if fact["by"] != "operation_class":
            return [word]
        every = next((list(p.enum) for p in self.op.params if p.name == "operation"), [])
        classed = {o for group in CLASSES.values() for o in group}
        return [o for o in every if (o in CLASSES[word] if word in CLASSES else o not in classed)]

    def _size(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """Returns no rule for a length that the parameter's type already states; e.g. u32[2]."""
        p = next((p for p in self.op.params if p.name == own), None)
        return [] if p is not None and p.shape is not None and p.shape[0].isdigit() else None

    def _dtype_in(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        """Returns no rule for a parameter's single type, which the spec already states."""
        return [] if own in self.names.params and len(fact["dtypes"]) == 1 else None

    def _rank_relation(self, fact: Any, own: str, configs: tuple[str, ...]) -> list[Condition] | None:
        return self._direct("rank_relation", fact, own)


def _merged(entries: Sequence[Any]) -> list[tuple[Any, tuple[str, ...]]]:
    """Merges facts that only differ in their configuration, each with all of its configurations."""
    found: dict[str, tuple[Any, list[str]]] = {}
    for entry in entries:
        key = str({k: v for k, v in entry.items() if k != "config"})
        found.setdefault(key, (entry, []))[1].append(entry["config"])
    return [(fact, tuple(dict.fromkeys(configs))) for fact, configs in found.values()]


def _equals(p: DocumentedParam, value: Any) -> str:
    """Compares the parameter with a literal of its type; e.g. rounding_mode == FLOOR, not keep_dims."""
    if p.dtype == "bool8":  # a flag is not compared with a number
        return p.name if value else f"not {p.name}"
    if p.enum:
        return f"{p.name} == {next(name for name, number in p.enum.items() if number == value)}"
    return f"{p.name} == {float(value) if p.dtype.startswith('f') else int(value)}"


def _bits(dtype: str) -> int:
    return BY_SHORT[dtype].bits


def _mentions(text: str, attribute: str, dtype: str) -> bool:
    """True if a condition requires a type of a slot; e.g. "gamma.dtype in (uq16, sq16)"."""
    return attribute in text and dtype in text.replace("(", " ").replace(")", " ").replace(",", " ").split()


def _is_in(what: str, choices: Sequence[str], word: str = "in") -> str:
    if len(choices) == 1:
        return f"{what} {'==' if word == 'in' else '!='} {choices[0]}"
    return f"{what} {word} ({', '.join(choices)})"
