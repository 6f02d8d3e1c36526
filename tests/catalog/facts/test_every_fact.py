"""Every fact of the documents is in the catalog: slots, parameters, type rows, and constraints by their subject.

From the bundled facts to the specs, never back: a spec may know more.  Each fact that is not found has a reason in
``NOT_FOUND``; a reason that is no longer needed fails as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import opdb.specs
from opdb.author.importers.naming import symbol
from opdb.catalog import facts
from opdb.catalog.facts import DocumentedOp, DocumentedParam, DocumentedTensor
from opdb.spec import files as spec
from opdb.spec.compiler import compile_op
from opdb.spec.definitions import CompiledOp, CompiledRule, Param, Slot, TypeRow
from opdb.spec.lang.nodes import FLOAT, INT, INTS, Node, children

FOLDER = Path(opdb.specs.__file__).parent
CONTEXT = {"HTP": {"arch": "u32", "soc_model": "u32"}}
BACKENDS = ("CPU", "HTP", "GPU", "DSP", "HTA", "LPAI")

PADDING = "count_pad_for_edges == 0 => not (padding type VALID with explicit padding)"
#: op -> fact -> why the catalog does not have it.
NOT_FOUND: dict[str, dict[str, str]] = {
    "BoxWithNmsLimit": {
        "sigma: nms_kernel_method == GAUSSIAN": "The parameter must be given with every method; others do not read it.",
    },
    "ElementWiseBinary": {
        **dict.fromkeys(
            (
                "GPU: All: in[0]: dtype == uq4 => static(self)",
                "GPU: All: in[1]: dtype == uq4 => static(self)",
            ),
            "The definition of the op gives all tensors one type, and no output of GPU has this one.",
        ),
        "LPAI: All: in[0]: rank(self) <= 4": "The rank of a is at most that of y, which has the rule.",
    },
    "ExpandDims": {"axis: mandatory = True": "Newer SDKs have axes, which stands in its place."},
    "ExtractPatches": {"DSP: in[1]: the slot": "The definition of the op has one input."},
    "FullyConnected": {"in[0]: rank(self) >= 2": "The document contradicts itself, see C1."},
    "Gather": {
        **dict.fromkeys(
            ("DSP: in[2]: the slot", "DSP: in[3]: the slot"), "The definition of the op has two inputs."
        ),
        **dict.fromkeys(
            (
                "GPU: All: in[0]: dtype == uq4 => static(self)",
                "GPU: All: in[1]: dtype == uq4 => static(self)",
            ),
            "No row of GPU has this type.",
        ),
    },
    "GroupQueryAttention": {
        "scale: default {'expr': '1/sqrt(head_size)'}": "The rule language has no square root.",
    },
    "ElementWisePower": {
        "DSP: All: in[0]: rank(self) <= 4": "The rank of base is at most that of y, which has the rule."
    },
    "ImageProjectionTransform": dict.fromkeys(
        (f"DSP: All: in[0] {x}, in[1] {t}, out[0] {y}" for x, t, y in product(("uq8", "sq8"), repeat=3)),
        "The definition of the op gives in[1] FLOAT_32: no config is accepted.",
    ),
    "L2Norm": {"axes: default {'fill': 0}": "The document does not say how many zeros."},
    "Lstm": dict.fromkeys(
        ("GPU: All: in[24]: self == default", "DSP: All: in[24]: self == default"),
        "The values of a tensor are known when the op runs.",
    ),
    "MultiClassNms": {
        "CPU: int8: in[0] uq8, in[1] uq8, out[0] uq8, out[1] uq8, in[2..m] uq8, out[2] uq8, out[3] uq8, out[4..M] uq8": (
            "The document contradicts itself: classes are INT_32 and their number UINT_32 in the op definition."
        ),
    },
    "NonMaxSuppression": {
        "max_boxes_selected: clamped to num_boxes": "Tells what is done with a larger number."
    },
    "Pad": dict.fromkeys(
        (
            "HTP: INT16: pad_constant_value: quant(self) == quant(in[0]); stored as INT_32",
            "HTP: INT8: pad_constant_value: quant(self) == quant(in[0]); stored as INT_32",
            "DSP: All: pad_constant_value: dtype in {u8, i32} => quant(self) == quant(in[0]); interpreted as dtype(in[0])",
        ),
        "A parameter of an op config has one type and no encoding.",
    ),
    **{
        op: {
            f"{b}: All: count_pad_for_edges: {PADDING}": "No document says what padding of type VALID is."
            for b in on
        }
        for op, on in (("PoolAvg2d", ("DSP", "HTA", "LPAI")), ("PoolAvg3d", ("DSP",)))
    },
    "Prelu": {
        f"{b}: All: in[1]: rank(self) <= 4": "The rank of alpha is at most that of x, which has the rule."
        for b in ("HTP", "LPAI")
    },
    "Resize": {"LPAI: All: out[0]: rank(self) <= 4": "The rank of y is that of x, which has the rule."},
    "ScatterElements": {
        "HTP: FP16: reduction: reduction == NONE => indices in in[1] unique": "The values are known when the op runs.",
    },
    "Stft": {
        "frame_length: default {'expr': 'dim(in[1],0) if in[1] present else signal_length'}": (
            "The named expression 'length' has it; a rule asks whether the parameter is given."
        ),
    },
}

#: Constraint kind -> attributes of the slot, at least one of which a rule has to read.
SLOT_KINDS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("dtype_same", "dtype_not"), frozenset({"dtype"})),
    **dict.fromkeys(
        ("rank_same", "rank_relation", "shape_same", "shape_relation", "shape_if", "dim_formula", "dim_relation",
         "divisible", "broadcast"),
        frozenset({"rank", "shape", "shape given"}),
    ),
    **dict.fromkeys(("count", "count_relation"), frozenset({"len", "present"})),
    **dict.fromkeys(("present_together", "required_if", "slot_unsupported", "only_default"), frozenset({"present"})),
    **dict.fromkeys(("dtype_by_operation", "dtype_by_rank", "min_arch", "quant_pair"), frozenset({"dtype"})),
    "static": frozenset({"static"}),
    "quant_axis": frozenset({"axis"}),
    "quant_encoding": frozenset({"encoding"}),
    "quant_fixed": frozenset({"scale", "offset"}),
    "quant_same": frozenset({"same_quant"}),
    "quant_symmetric": frozenset({"symmetric"}),
}  # fmt: skip

#: Constraint kind -> functions of the parameter, if reading its value is not enough.
PARAM_KINDS = {"unique": ("unique", "increasing"), "size": ("len",)}

#: Kinds that no rule can be about, with the reason.
NO_RULES = {
    "bitmask": "tells what is ignored",
    "conflict": "two documents disagree",
    "content": "values of a tensor, known when the op runs",
    "data_format": "sparse tensors have no attribute in the rule language",
    "data_format_same": "sparse tensors have no attribute in the rule language",
    "dims_pointer": "a way to pass a tensor of rank 0",
    "dynamic_dims": "an op config has no dynamic dimensions",
    "dynamic_dims_allowed": "an op config has no dynamic dimensions",
    "dynamic_dims_unsupported": "an op config has no dynamic dimensions",
    "dtype_in": "a parameter has one type in a spec, which the definition gives",
    "ignored_if": "tells what is ignored",
    "index_in_range": "values of a tensor, known when the op runs",
    "out_of_range": "what becomes of values, known when the op runs",
    "quant_bitwidth": "the bits of an encoding have no attribute in the rule language",
    "quant_definition": "an op config does not tell an encoding that is undefined from one that is missing",
    "quant_source": "tells what is ignored",
    "tensor_type": "an op config does not tell inputs of the graph from its tensors",
    "updateable_quant": "allows something",
}
#: Kinds about values: of a parameter rules read them, of a tensor they are known when the op runs.
VALUES = frozenset({"unique", "value_cmp", "value_range", "value_relation"})
#: Other kinds that limit a parameter.
ABOUT_PARAMS = frozenset(
    {
        "excludes",
        "only_default",
        "only_value",
        "permutation",
        "required_if",
        "size",
        "valid_if",
        "value_allowed",
        "value_denied",
    }
)


@cache
def specs() -> spec.SpecSet:
    return spec.read_folder(FOLDER, drafts=True)


#: One thing a rule reads: a slot or parameter with an attribute, a function, or "" (its value); or a number with "number".
Reading = tuple[str, str]
DERIVED = ("", "derived")  # in the rules that follow from shapes


class Rules:
    """The readings of each rule of one op."""

    def __init__(self, op: CompiledOp) -> None:
        self.named = {b.symbol: b.value for b in op.binds} | dict(op.lets)
        self.own = [self.of(r) for r in (*op.ranks, *op.rules)]
        # A dim that a symbol is bound to is stated too, though no rule compares it.
        self.own += [
            frozenset({(s.name, "shape given")}) for s in op.slots if isinstance(s.definition.shape, list)
        ]
        self.own += [frozenset({(i.output, "shape given")}) for i in op.inferences]
        self.backends = {b: [*map(self.of, rules)] for b, rules in op.backend_rules.items()}
        #: Slots whose rank follows from their dims or from the shapes of other slots.
        firsts = {
            self.root(b.value.args[0] if b.value.kind != "attr" else b.value, {})
            for b in op.binds
            if b.value.type == INTS
        }
        given = {s.name for s in op.slots if s.definition.shape not in (None, "any")}
        self.ranked = given - firsts

    def of(self, rule: CompiledRule) -> frozenset[Reading]:
        found: set[Reading] = set() if rule.text else {DERIVED}
        for node in (rule.require, rule.when):
            if node is not None:
                self.read(node, {}, found)
        return frozenset(found)

    def read(self, node: Node, loops: Mapping[str, str | None], found: set[Reading]) -> None:
        if node.kind == "comp":
            for loop in node.value[1]:
                self.read(loop.source, loops, found)
                loops = {**loops, loop.var: self.root(loop.source, loops)}
                for condition in loop.conditions:
                    self.read(condition, loops, found)
            self.read(node.args[0], loops, found)
            return
        if node.kind in ("attr", "call"):
            found |= {(root, str(node.value)) for a in node.args if (root := self.root(a, loops))}
        if node.kind == "const" and node.type in (INT, FLOAT):
            found.add(number(node.value))
        if node.kind == "name" and node.value not in loops:
            found.add((node.value, ""))
            if node.value in self.named:
                self.read(self.named[node.value], {}, found)
        for child in children(node):
            self.read(child, loops, found)

    def root(self, node: Node, loops: Mapping[str, str | None]) -> str | None:
        """The slot or parameter that ``node`` names, indexes, or takes an attribute of."""
        if node.kind in ("index", "attr"):
            return self.root(node.args[0], loops)
        if node.kind != "name":
            return None
        return loops.get(node.value, node.value)


def pairs(documented: Iterable[DocumentedTensor], slots: Iterable[Slot]) -> dict[str, list[Slot]]:
    """Maps each documented slot to slots of the spec by position; in[1..4] may be four optional slots."""
    left = list(slots)
    out: dict[str, list[Slot]] = {}
    for t in documented:
        between = re.search(r"(\d+)\.\.(\d+)\]", t.slot)
        many = t.variadic and between is not None and bool(left) and not left[0].variadic
        count = int(between[2]) - int(between[1]) + 1 if between is not None and many else 1
        out[t.slot], left = left[:count], left[count:]
    return out


class Comparison:
    """One documented op beside its spec; ``missing`` are the facts that are not found."""

    def __init__(self, name: str) -> None:
        self.facts: DocumentedOp = facts.documented_op(name)
        self.op = compile_op(specs().ops[name], CONTEXT)
        self.slots = pairs(self.facts.inputs, self.op.inputs) | pairs(self.facts.outputs, self.op.outputs)
        self.params = {p.name: p for p in self.op.params}
        self.rules = Rules(self.op)

    def missing(self) -> Iterator[str]:
        for t in (*self.facts.inputs, *self.facts.outputs):
            yield from (f"{t.slot}: {what}" for what in self.slot(t))
        for p in self.facts.params:
            yield from (f"{p.name}: {what}" for what in self.param(p))
        for b in BACKENDS:
            yield from (f"{b}: {what}" for what in self.backend(b))
        for subject, constraints in self.subjects():
            for c in constraints:
                if not self.read(subject, c, self.rules.own):
                    yield f"{subject or 'op'}: {c['expr']}"

    def slot(self, t: DocumentedTensor) -> Iterator[str]:
        slots = self.slots[t.slot]
        if not slots:
            yield "the slot"
        for s in slots:
            optional = s.optional or (s.variadic and s.definition.min == 0)
            if optional == t.mandatory:
                yield f"mandatory = {t.mandatory}"
            if len(slots) == 1 and s.variadic != t.variadic:
                yield f"variadic = {t.variadic}"
            if t.shape and not any(self.some(self.rules.own, (s.name, w)) for w in ("shape", "shape given")):
                yield f"shape {', '.join(t.shape)}"
            if t.rank and t.rank[0] == t.rank[1] and s.name not in self.rules.ranked:
                shown = [(s.name, "shape")], [(s.name, "rank"), number(t.rank[0])]
                if not any(self.some(self.rules.own, *readings) for readings in shown):
                    yield f"rank {t.rank[0]}"
            if t.dtypes and not self.some(self.rules.own, (s.name, "dtype")):
                yield f"types {', '.join(t.dtypes)}"

    def param(self, p: DocumentedParam) -> Iterator[str]:
        found = self.params.get(p.name)
        if found is None:
            yield "the parameter"
            return
        d = found.definition
        if found.required != p.mandatory:
            yield f"mandatory = {p.mandatory}"
        if p.dtype != "backend" and d.base != p.dtype:
            yield f"type {p.dtype}"
        dims = tuple(int(n) if n.isdigit() else None for n in p.shape or ())
        if any(n not in (None, m) for n, m in zip(d.dims, dims, strict=False)) or len(d.dims) != len(dims):
            yield f"shape {', '.join(p.shape or ())}"
        for value, number in p.enum.items():
            if d.enum.get(value) != number:
                yield f"{value} = {number}"
        if not self.same_default(p, d.default):
            yield f"default {p.default}"

    def same_default(self, p: DocumentedParam, text: str | None) -> bool:
        stated = p.default
        if stated is None or (isinstance(stated, dict) and ("unset" in stated or "none" in stated)):
            return True
        if text is None:
            return False
        if isinstance(stated, dict):
            if "by_param" in stated:
                return stated["by_param"] in text and all(str(v) in text for v in stated["table"].values())
            if "fill" in stated:
                return set(numbers(text)) == {float(stated["fill"])}
            return re.search("[A-Za-z]", text) is not None  # a formula
        if p.enum:
            return bool(p.enum.get(text) == stated)
        if isinstance(stated, bool):
            return text == str(stated).lower()
        return numbers(text) == numbers(str(stated))

    def backend(self, backend: str) -> Iterator[str]:
        documented = self.facts.backends.get(backend)
        if documented is None:
            return
        sdk = numbers(documented.source)[0]
        rows = [r for r in self.op.type_rows.get(backend, ()) if not r.since or float(r.since) <= sdk]
        for config, cells in documented.rows:
            for row in self.not_allowed(cells, rows):
                yield f"{config}: {', '.join(f'{s} {d}' for s, d in row.items())}"
        for slot in dict.fromkeys(s for _, cells in documented.rows for s in cells if s not in self.params):
            if self.column(slot) is None:
                yield f"{slot}: the slot"
        rules = self.rules.own + self.rules.backends.get(backend, [])
        for subject, groups in documented.slots.items():
            if subject not in self.params and self.column(subject) is None:
                continue
            for group, entries in groups.items():
                for c in entries:
                    if group != "dtypes" and not self.read(subject, {"kind": group, **c}, rules):
                        yield f"{c.get('config')}: {subject}: {c['expr']}"

    def not_allowed(
        self, cells: Mapping[str, tuple[str, ...]], rows: list[TypeRow]
    ) -> Iterator[dict[str, str]]:
        """The combinations of a documented row that no row of the spec allows; some cells say "backend"."""
        named = {
            column: [d for d in cell if d != "backend"]
            for s, cell in cells.items()
            if s not in self.params and (column := self.column(s))
        }
        if any(
            all(set(cell) <= set(r.cells[x.name]) for s, cell in named.items() for x in self.slots[s])
            for r in rows
        ):
            return  # one row has them all; some tables multiply out to millions
        for combo in product(*(cell for cell in named.values() if cell)):
            row = dict(zip((s for s, cell in named.items() if cell), combo, strict=True))
            if not any(
                all(d in r.cells[x.name] for s, d in row.items() for x in self.slots[s]) for r in rows
            ):
                yield row

    def column(self, slot: str) -> str | None:
        """The documented slot of a column; in[1] is the first of in[1..m]; None if no op definition has it."""
        return next((s for s in self.slots if s == slot or s.startswith(f"{slot[:-1]}..")), None)

    def subjects(self) -> Iterator[tuple[str, tuple[Mapping[str, Any], ...]]]:
        for t in (*self.facts.inputs, *self.facts.outputs):
            yield t.slot, t.constraints
        for p in self.facts.params:
            yield p.name, p.constraints
        yield "", self.facts.constraints

    def read(self, subject: str, c: Mapping[str, Any], rules: list[frozenset[Reading]]) -> bool:
        """True if one of ``rules`` reads what constraint ``c`` of ``subject`` (a slot, a parameter, the op) is about."""
        kind = c["kind"]
        if kind in NO_RULES or (kind in VALUES and subject in self.slots):
            return True
        if kind in VALUES | ABOUT_PARAMS:  # a shape that a parameter leads to does not limit it
            rules = [rule for rule in rules if DERIVED not in rule]
        names = {name for rule in rules for name, _ in rule}
        if not subject:
            return all(name in names for name in self.mentioned(c["expr"]))
        if subject in self.params:
            return self.limits(self.params[subject], c, rules)
        if c.get("param") in self.params:
            return c["param"] in names
        if kind == "rank":
            limits = [number(c[k]) for k in ("min", "max") if k in c]
            free = [s.name for s in self.slots[subject] if s.name not in self.rules.ranked]
            return all(self.some(rules, (name, "rank"), limit) for name in free for limit in limits)
        needed = [("arch", "")] if kind == "min_arch" else []
        others = self.slots.get(c.get("ref", ""), [])[:1] if kind in ("dtype_same", "quant_same") else []
        return all(
            any(
                self.some(rules, (s.name, w), *needed, *((o.name, w) for o in others))
                for w in SLOT_KINDS[kind]
            )
            or (kind == "count" and s.variadic and s.definition.min >= c.get("min", 1))
            for s in self.slots[subject]
        )

    def limits(self, param: Param, c: Mapping[str, Any], rules: list[frozenset[Reading]]) -> bool:
        """True if ``rules`` limit a parameter as ``c`` does: the same function, or the same numbers or their neighbors."""
        if c["kind"] == "size" and "max" in c and all(n is not None for n in param.definition.dims):
            return len(param.definition.dims) == 1 and param.definition.dims[0] <= c["max"]
        wanted = PARAM_KINDS.get(c["kind"])
        if wanted is not None:
            return any(self.some(rules, (param.name, w)) for w in wanted)
        stated = [
            c[k]
            for k in ("min", "max", "value")
            if isinstance(c.get(k), (int, float)) and c["kind"] in VALUES
        ]
        if param.definition.base.startswith("u"):
            stated = [n for n in stated if n != 0]  # the type implies it
        return self.some(rules, (param.name, "")) and all(
            any(self.some(rules, (param.name, ""), number(n + step)) for step in (0, 1, -1)) for n in stated
        )

    @staticmethod
    def some(rules: list[frozenset[Reading]], *readings: Reading) -> bool:
        """True if one rule has all of these readings."""
        return any(all(r in rule for r in readings) for rule in rules)

    def mentioned(self, expr: str) -> set[str]:
        """The parameters and symbols of a formula about the whole op."""
        words = set(re.findall(r"[A-Za-z_]\w*", expr))
        return {w for w in words if w in self.params} | {
            symbol(w) for w in words if symbol(w) in self.rules.named
        }


def number(value: float) -> Reading:
    return (str(float(value)), "number")


def numbers(text: str) -> list[float]:
    """The numbers in a text; the first of a source is its SDK, the first of 2.25.0 is 2.25."""
    return [float(n) for n in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", text)]


@pytest.mark.parametrize("name", facts.documented_ops())
def test_every_documented_fact_is_in_the_spec(name: str) -> None:
    reasons = NOT_FOUND.get(name, {})
    found = list(Comparison(name).missing()) if name in specs().ops else ["the op"]
    assert [f for f in found if f not in reasons] == [], "facts that are not in the spec"
    assert [r for r in reasons if r not in found] == [], "reasons that are not needed"


def test_reasons_for_missing_facts_name_documented_ops() -> None:
    assert set(NOT_FOUND) <= set(facts.documented_ops())


def test_every_kind_of_constraint_occurs() -> None:
    kinds: set[str] = set()
    for op in map(facts.documented_op, facts.documented_ops()):
        groups = [op.constraints, *(t.constraints for t in (*op.inputs, *op.outputs))]
        groups += [p.constraints for p in op.params]
        kinds |= {c["kind"] for group in groups for c in group}
        for slots in (op.backends[b].slots for b in BACKENDS if b in op.backends):
            kinds |= {c.get("kind", g) for entries in slots.values() for g, e in entries.items() for c in e}
    assert set(NO_RULES) | VALUES | ABOUT_PARAMS | set(SLOT_KINDS) | set(PARAM_KINDS) <= kinds
