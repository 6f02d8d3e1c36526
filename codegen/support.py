"""The specs' support for an op, or a PyTorch operator, in one place: a backend, a SoC, an SDK.

A combination of data types is supported if a declared type row (``opdb.spec.declared``) has it and no rule definitely forbids
it, given the SoC, the SDK, the data types, and the parameters that a mapping fixes; all else is open.  Types that an
erratum without a workaround refuses are not supported either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from opdb.codegen.builders import MAKERS, Form, candidates
from opdb.codegen.evidence import facts
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.sdk import sdk_number
from opdb.spec.catalog import Catalog
from opdb.spec.declared import Declared, has
from opdb.spec.definitions import CompiledOp, CompiledRule, TypeRow
from opdb.spec.lang.analyze import free_names
from opdb.spec.lang.certain import Rule, forbidden, parsed
from opdb.spec.lang.nodes import TENSOR, TENSORS, Node, walk
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import CompiledMapping, CompiledStep


@dataclass(frozen=True)
class Place:
    """The place an op runs.  ``soc`` is None for a backend whose verdicts do not depend on it."""

    backend: str  # e.g. HTP
    soc: str | None  # e.g. SM8650
    sdk: str  # e.g. 2.47

    def __str__(self) -> str:
        return f"{self.backend}{f' on {self.soc}' if self.soc else ''}, SDK {self.sdk}"

    def known(self, catalog: Catalog) -> dict[str, Any]:
        """The place's values that rules read.  Raises OpdbError for an unknown backend, or an unknown or missing SoC."""
        if self.backend not in catalog.backends:
            raise OpdbError(f"unknown backend '{self.backend}'; known: {', '.join(catalog.backends)}")
        found: dict[str, Any] = {"sdk": sdk_number(self.sdk)}
        if not catalog.backends[self.backend].per_soc:
            return found
        if self.soc is None or self.soc not in catalog.socs:
            raise OpdbError(
                f"{self.backend} needs a SoC that specs/socs.yaml has, e.g. SM8650; got {self.soc}"
            )
        chip = catalog.socs[self.soc]
        return found | catalog.backends[self.backend].reads(chip)


@dataclass(frozen=True)
class Combination:
    """One data type (short name) for each slot, and the row that allows it."""

    dtypes: Mapping[str, str]
    row: TypeRow

    @property
    def run(self) -> str | None:
        """The run that measured the row, e.g. probe HTP 2.47.0; None if a document declares it."""
        source = self.row.source
        return source if source is not None and source.startswith("probe") else None


@dataclass(frozen=True)
class Part:
    """An op as a form uses it, with the combinations that its fixed parameters allow."""

    op: CompiledOp
    combinations: tuple[Combination, ...]
    rules: tuple[CompiledRule, ...]  # the backend's required rules that the known values do not decide
    inner: bool = False  # True if it reads only tensors of the form with a fixed type, e.g. truth values

    @cached_property
    def main(self) -> str | None:
        """The slot whose type the op computes in: the first that can be float, else quantized, else any."""
        kinds = {s.name: [BY_SHORT[c.dtypes[s.name]] for c in self.combinations] for s in self.op.slots}
        for real in (lambda d: "FLOAT" in d.qnn, lambda d: d.quantized, lambda d: True):
            for slot, found in kinds.items():
                if any(map(real, found)):
                    return slot
        return None


@dataclass(frozen=True)
class Support:
    """The ops of a catalog in one place."""

    catalog: Catalog
    place: Place
    _parts: dict[tuple[str, frozenset[tuple[str, Any]]], Part] = field(default_factory=dict, repr=False)
    _ops: dict[str, Declared] = field(default_factory=dict, repr=False)
    _of_forms: dict[int, tuple[Form, list[Part]]] = field(default_factory=dict, repr=False)

    @cached_property
    def known(self) -> dict[str, Any]:
        return self.place.known(self.catalog)

    def part(self, op: CompiledOp, params: Mapping[str, Any] | None = None) -> Part:
        """The part of an op; ``params``: fixed parameter values (enums by name) and ranks, e.g. x.rank."""
        key = (op.name, frozenset((params or {}).items()))
        if key not in self._parts:
            self._parts[key] = self._part(op, params or {})
        return self._parts[key]

    def _part(self, op: CompiledOp, params: Mapping[str, Any]) -> Part:
        known, rows = self.known, self._rows(op)
        if not rows:
            return Part(op, (), ())
        if op.name not in self._ops:
            self._ops[op.name] = Declared(op, self.place.backend)
        left = self._ops[op.name].left(known, self.place.sdk, rows, params)
        refused = self._refused(op)
        types = [
            Combination(dtypes, row)
            for dtypes, row in left.combinations
            if not forbidden(refused, {**known, **{f"{slot}.dtype": d for slot, d in dtypes.items()}})
        ]
        return Part(op, tuple(types), left.rules)

    def _refused(self, op: CompiledOp) -> list[Rule]:
        """The errata of the place that have no workaround, as rules."""
        found = []
        for erratum in op.errata.get(self.place.backend, ()):
            record = erratum.definition
            there = erratum.scope is None or parsed(to_text(erratum.scope))(self.known) is True
            if there and record.workaround == "reject":
                when = None if erratum.rule.when is None else parsed(to_text(erratum.rule.when))
                found.append((when, parsed(to_text(erratum.rule.require))))
        return found

    def _rows(self, op: CompiledOp) -> list[TypeRow]:
        """The declared type rows, from the table ``declared``, or computed as sync does if there is no database."""
        rows = op.type_rows.get(self.place.backend, ())
        if self._declared is not None:
            there = self._declared.get(op.name, frozenset())
            return [row for row in rows if row.id in there]
        chip = {name: value for name, value in self.known.items() if name != "sdk"}
        return [
            row for row in rows if has(Declared(op, self.place.backend).ranges(row, chip), self.place.sdk)
        ]

    @cached_property
    def _declared(self) -> Mapping[str, frozenset[str]] | None:
        found = facts(self.catalog)
        return None if found is None else found.declared(self.place.backend, self.place.soc, self.place.sdk)

    # -- PyTorch

    @cached_property
    def forms(self) -> dict[str, list[Form]]:
        """The forms of every PyTorch operator, in the order of its family."""
        return self.catalog.once("forms", lambda: _forms(self.catalog))  # independent of the place

    def parts(self, form: Form) -> list[Part]:
        """The ops of a form, each with the parameters that the form fixes and the types that its guard allows."""
        if id(form) not in self._of_forms:
            self._of_forms[id(form)] = form, self._parts_of(form)
        return self._of_forms[id(form)][1]

    def _parts_of(self, form: Form) -> list[Part]:
        steps: list[CompiledMapping | CompiledStep] = (
            [form] if isinstance(form, CompiledMapping) else [*form.steps]
        )
        when = None if form.when is None else parsed(to_text(form.when))
        made = () if isinstance(form, CompiledMapping) else form.tensors
        settled = {t.name: dtype for t in made if (dtype := _always(t.like))}
        found = []
        for step in steps:
            part = self.part(step.op, _fixed(step.op, step.params) | _ranks(step))
            if when is not None:
                arguments = {
                    slot: names for slot, n in step.inputs.items() if len(names := free_names(n)) == 1
                }
                kept = (c for c in part.combinations if when(_dtypes(c, arguments)) is not False)
                part = replace(part, combinations=tuple(kept))
            found.append(_settled(part, step, settled))
        return found


def _forms(catalog: Catalog) -> dict[str, list[Form]]:
    return {target: [c.form for c in made] for target, made in candidates(catalog).items()}


def _always(like: Node) -> str:
    """The data type of tensors like ``like`` if it is fixed; else ""."""
    if like.kind == "call" and like.value == "widened":
        return "uq16"
    return str(like.value) if like.kind == "const" else ""


def _dtypes(combination: Combination, arguments: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The data types of the torch arguments, from the slots that they alone go to."""
    return {f"{n}.dtype": combination.dtypes[slot] for slot, names in arguments.items() for n in names}


def _settled(part: Part, step: CompiledMapping | CompiledStep, types: Mapping[str, str]) -> Part:
    """Narrows ``part`` by the fixed types (``types``) of the form's tensors; inner if it reads only such tensors."""
    named = {slot: n.value for slot, n in (*step.inputs.items(), *step.outputs.items()) if n.kind == "name"}
    known = {slot: types[name] for slot, name in named.items() if name in types}
    kept = tuple(c for c in part.combinations if all(c.dtypes[slot] == d for slot, d in known.items()))
    made = {slot for slot, n in step.inputs.items() if n.kind == "call" and n.value in MAKERS}
    read = {slot for slot, n in step.inputs.items() if any(map(_is_tensor, walk(n)))} - made
    return replace(part, combinations=kept, inner=bool(read) and read <= known.keys())


def _is_tensor(node: Node) -> bool:
    return node.kind == "name" and node.type in (TENSOR, TENSORS)


def _fixed(op: CompiledOp, given: Mapping[str, Node]) -> dict[str, Any]:
    """The parameters with constant values, independent of the node's arguments."""
    nodes = {p.name: given.get(p.name, p.default) for p in op.params}
    return {name: n.value for name, n in nodes.items() if n is not None and n.kind == "const"}


def _ranks(step: CompiledMapping | CompiledStep) -> dict[str, Any]:
    """The ranks of inputs that the form permutes by a literal list, from its length."""
    lists = {slot: n.args[1] for slot, n in step.inputs.items() if n.kind == "call" and n.value == "permute"}
    return {f"{slot}.rank": len(order.args) for slot, order in lists.items() if order.kind == "list"}
