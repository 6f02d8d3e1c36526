"""What the specs say of an op, or of a PyTorch operator, in one place: a backend, a SoC, an SDK.

A combination of data types counts when a type row of that SDK has it and no rule forbids it for certain, with the SoC,
the SDK, the data types and the parameters that a mapping fixes known, and all else open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from opdb.codegen.builders import Form, candidates
from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.op_config import ENCODINGS
from opdb.core.sdk import declared, sdk_number
from opdb.spec.catalog import Catalog
from opdb.spec.definitions import CompiledOp, CompiledRule, TypeRow, expand_row
from opdb.spec.lang.analyse import free_names
from opdb.spec.lang.certain import Rule, forbidden, parsed
from opdb.spec.lang.nodes import BOOL, TENSOR, TENSORS, Node, walk
from opdb.spec.lang.printer import to_text
from opdb.spec.mapping import CompiledMapping, CompiledStep


@dataclass(frozen=True)
class Place:
    """Where an op is to run.  ``soc`` None: a backend whose verdicts do not depend on it."""

    backend: str  # e.g. HTP
    soc: str | None  # e.g. SM8650
    sdk: str  # e.g. 2.47

    def __str__(self) -> str:
        return f"{self.backend}{f' on {self.soc}' if self.soc else ''}, SDK {self.sdk}"

    def known(self, catalog: Catalog) -> dict[str, Any]:
        """The values that rules read of the place.  Raises OpdbError: no such backend or SoC, or none given."""
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
        """The run that measured the row; None where a document declares it.  e.g. probe HTP 2.47.0"""
        source = self.row.source
        return source if source is not None and source.startswith("probe") else None


@dataclass(frozen=True)
class Part:
    """An op as a form uses it: what is known of its parameters, and the combinations that are left."""

    op: CompiledOp
    combinations: tuple[Combination, ...]
    rules: tuple[CompiledRule, ...]  # of the backend, required here and not decided by what is known
    inner: bool = (
        False  # whether it reads only tensors of the form whose type is always the same; e.g. truth values
    )

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
class _Read:
    """A rule, as what is certain is asked of it."""

    rule: CompiledRule
    parts: Rule
    words: frozenset[str]

    @classmethod
    def of(cls, rule: CompiledRule) -> _Read:
        when = None if rule.when is None else to_text(rule.when)
        require = to_text(rule.require)
        words = frozenset(re.findall(r"\w+", f"{when} {require}"))
        return cls(rule, (None if when is None else parsed(when), parsed(require)), words)

    def holds(self, known: Mapping[str, Any]) -> bool:
        """Whether the rule holds whatever else is known of the op config."""
        when, require = self.parts
        return (when is not None and when(known) is False) or require(known) is True


@dataclass(frozen=True)
class Support:
    """The ops of a catalogue in one place."""

    catalog: Catalog
    place: Place
    _parts: dict[tuple[str, frozenset[tuple[str, Any]]], Part] = field(default_factory=dict, repr=False)
    _rules: dict[tuple[str, str], _Read] = field(default_factory=dict, repr=False)
    _of_forms: dict[int, tuple[Form, list[Part]]] = field(default_factory=dict, repr=False)

    @cached_property
    def known(self) -> dict[str, Any]:
        return self.place.known(self.catalog)

    def part(self, op: CompiledOp, params: Mapping[str, Any] | None = None) -> Part:
        """An op; ``params``: the values that are fixed, an enum's by name, and ranks; e.g. x.rank."""
        key = (op.name, frozenset((params or {}).items()))
        if key not in self._parts:
            self._parts[key] = self._part(op, params or {})
        return self._parts[key]

    def _part(self, op: CompiledOp, params: Mapping[str, Any]) -> Part:
        known = _with_lets(
            op, {**self.known, **{n: n for p in op.params for n in p.definition.enum}, **params}
        )
        backend, place = op.definition.backends.get(self.place.backend), self.place
        if backend is None or not declared(backend.since, backend.until, place.sdk):
            return Part(op, (), ())
        required = [
            self._read(op, r) for r in (*op.rules, *op.backend_rules[place.backend]) if self._required(op, r)
        ]
        names = {*known, "dtype", "present", "rank"} | {p.name for p in op.params if p.definition.enum}
        names -= {n for p in op.params for n in p.definition.enum}
        telling = [r.parts for r in required if names & r.words]
        encoded = [r.parts for r in required if "encoding" in r.words]
        open_ = [p for p in op.params if p.definition.enum and p.name not in params]
        ways = [[_with_lets(op, {**known, p.name: value}) for value in p.definition.enum] for p in open_] or [
            [known]
        ]
        found: dict[tuple[str, ...], Combination] = {}
        for row in op.type_rows[place.backend]:
            has = row.needs is None or self.known[row.needs.has]
            if has and declared(row.since, row.until, place.sdk):
                for dtypes in expand_row(row):
                    if all(any(self._may_be(op, telling, encoded, k, dtypes) for k in way) for way in ways):
                        found.setdefault(tuple(dtypes.values()), Combination(dtypes, row))
        types = [{**known, **{f"{slot}.dtype": d for slot, d in c.dtypes.items()}} for c in found.values()]
        left = [r.rule for r in required if r.rule.backend and not all(r.holds(t) for t in types)]
        return Part(op, tuple(found.values()), tuple(left))

    def _required(self, op: CompiledOp, rule: CompiledRule) -> bool:
        if rule.strength == "expect":
            return False
        entry = op.unchecked(rule.id).get(self.place.backend) if rule.backend is None else None
        return entry is None or not declared(entry.since, entry.until, self.place.sdk)

    def _read(self, op: CompiledOp, rule: CompiledRule) -> _Read:
        if (op.name, rule.id) not in self._rules:
            self._rules[op.name, rule.id] = _Read.of(rule)
        return self._rules[op.name, rule.id]

    @staticmethod
    def _may_be(
        op: CompiledOp,
        rules: list[Rule],
        encoded: list[Rule],
        known: Mapping[str, Any],
        dtypes: Mapping[str, str],
    ) -> bool:
        here = {**known, **{f"{slot}.dtype": d for slot, d in dtypes.items()}}
        here |= {f"present({s.name})": True for s in op.slots if not s.optional}
        if forbidden(rules, here):
            return False
        if not encoded:
            return True
        quantized = [s.name for s in op.slots if BY_SHORT[dtypes[s.name]].quantized and not s.optional]
        return all(
            any(not forbidden(encoded, {**here, f"{slot}.encoding": e}) for e in ENCODINGS)
            for slot in quantized
        )

    # -- PyTorch

    @cached_property
    def forms(self) -> dict[str, list[Form]]:
        """The forms of every PyTorch operator, in the order of its family."""
        return self.catalog.once("forms", lambda: _forms(self.catalog))  # the same for every place

    def parts(self, form: Form) -> list[Part]:
        """The ops of a form, each with the parameters that the form fixes, in the types that its guard allows."""
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
    """The data type of what is like ``like``, if it has the same one whatever the arguments are."""
    if like.kind == "call" and like.value == "widened":
        return "uq16"
    return str(like.value) if like.kind == "const" else ""


def _dtypes(combination: Combination, arguments: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The data types of the arguments that go to slots by themselves."""
    return {f"{n}.dtype": combination.dtypes[slot] for slot, names in arguments.items() for n in names}


def _settled(part: Part, step: CompiledMapping | CompiledStep, types: Mapping[str, str]) -> Part:
    """``part`` in the types of the form's tensors that always have one (``types``); inner if it reads only such."""
    named = {slot: n.value for slot, n in (*step.inputs.items(), *step.outputs.items()) if n.kind == "name"}
    known = {slot: types[name] for slot, name in named.items() if name in types}
    kept = tuple(c for c in part.combinations if all(c.dtypes[slot] == d for slot, d in known.items()))
    read = {slot for slot, n in step.inputs.items() if any(map(_is_tensor, walk(n)))}
    return replace(part, combinations=kept, inner=bool(read) and read <= known.keys())


def _is_tensor(node: Node) -> bool:
    return node.kind == "name" and node.type in (TENSOR, TENSORS)


def _fixed(op: CompiledOp, given: Mapping[str, Node]) -> dict[str, Any]:
    """The parameters whose value is the same whatever the node's arguments are."""
    nodes = {p.name: given.get(p.name, p.default) for p in op.params}
    return {name: n.value for name, n in nodes.items() if n is not None and n.kind == "const"}


def _ranks(step: CompiledMapping | CompiledStep) -> dict[str, Any]:
    """The ranks of inputs that the form permutes by a list, which has as many numbers."""
    lists = {slot: n.args[1] for slot, n in step.inputs.items() if n.kind == "call" and n.value == "permute"}
    return {f"{slot}.rank": len(order.args) for slot, order in lists.items() if order.kind == "list"}


def _with_lets(op: CompiledOp, known: Mapping[str, Any]) -> dict[str, Any]:
    """``known``, and the named conditions of the op that follow from it."""
    out = dict(known)
    for name, node in op.lets:
        if node.type == BOOL and (told := parsed(to_text(node))(out)) is not None:
            out[name] = told
    return out
