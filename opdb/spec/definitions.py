"""An op after type-checking: bindings, named expressions, every rule, shape inference, type rows.

Rule ids are permanent because they are built from names: ``RANK_x``, ``SHAPE_gamma``, ``COUNT_ys``, ``DTYPE_shape``,
``STATIC_w`` are derived from the slots; ``C1``, ``H2`` are written in the spec; those of ``SIGNATURE`` and
``TYPES_<backend>`` are the same for every op.  ``opdb.spec.compiler`` builds a ``CompiledOp``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod

from opdb.core.quant_rules import QuantRules
from opdb.runtime.checks import RuleStrength
from opdb.spec.backend import Need
from opdb.spec.erratum import Erratum
from opdb.spec.lang.element import Element
from opdb.spec.lang.nodes import Node, Scope
from opdb.spec.model import OpDef, ParamDef, TensorDef, Unchecked

#: The rules that binding depends on, then the rule about parameters missing from the definition.
BOUND, UNKNOWN = ("INPUTS", "PARAMS", "OUTPUTS"), "UNKNOWN_PARAMS"
#: The rules that the binding checks, the same for every op: opdb/runtime/binding.py and binding.c.
SIGNATURE = (*BOUND, UNKNOWN)


@dataclass(frozen=True)
class Fault:
    """A fault in a definition: its path in the spec's data, a message, and the column offset."""

    at: tuple[str | int, ...]
    message: str
    column: int = 0


class CompileError(Exception):
    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("\n".join(f"{'.'.join(map(str, f.at))}: {f.message}" for f in faults))


@dataclass(frozen=True)
class Slot:
    name: str
    definition: TensorDef
    output: bool
    position: int

    @property
    def optional(self) -> bool:
        return self.definition.optional

    @property
    def variadic(self) -> bool:
        return self.definition.variadic


@dataclass(frozen=True)
class Param:
    name: str
    definition: ParamDef
    type: str  # of the rule language
    default: Node | None

    @property
    def optional(self) -> bool:
        """True if the value may be missing after defaults are filled in."""
        return self.definition.optional

    @property
    def required(self) -> bool:
        return self.default is None and not self.definition.optional


@dataclass(frozen=True)
class Bind:
    """A shape symbol and the expression for its value; safe to evaluate once the rank rules hold."""

    symbol: str
    value: Node
    sure: bool = True  # False: a backend does not check the rank, so evaluation may fail


@dataclass(frozen=True)
class CompiledRule:
    id: str  # e.g. C3
    require: Node
    when: Node | None = None
    strength: RuleStrength = "require"
    why: str | None = None
    source: str | None = None
    backend: str | None = None
    text: str = ""  # as written in the spec; "" for derived rules


@dataclass(frozen=True)
class CompiledErratum:
    """A fault in a library, as a rule that is broken when the fault occurs."""

    definition: Erratum
    rule: CompiledRule
    scope: Node | None  # condition on the target (versions, architectures, chips); None: everywhere

    @property
    def id(self) -> str:
        return self.definition.erratum


@dataclass(frozen=True)
class Inference:
    """The shape of one output; for a variadic output, of ``count`` tensors, with ``index`` bound in ``shape``."""

    output: str
    shape: Node
    count: Node | None = None
    index: str | None = None


@dataclass(frozen=True)
class TypeRow:
    """One allowed combination of data types.  ``cells`` has a set of short names for each slot."""

    id: str  # e.g. HTP.INT16.3
    cells: Mapping[str, tuple[str, ...]]
    since: str | None = None  # first SDK that has it, e.g. 2.47
    until: str | None = None  # last SDK
    source: str | None = None
    needs: Need | None = None


@dataclass(frozen=True)
class CompiledOp:
    definition: OpDef
    slots: tuple[Slot, ...]
    params: tuple[Param, ...]
    scope: Scope  # of the op's own rules
    ranks: tuple[CompiledRule, ...]  # checked first: binding depends on them
    binds: tuple[Bind, ...]
    lets: tuple[tuple[str, Node], ...]
    rules: tuple[CompiledRule, ...]  # the op definition's derived and written rules
    backend_rules: Mapping[str, tuple[CompiledRule, ...]]
    type_rows: Mapping[str, tuple[TypeRow, ...]]
    inferences: tuple[Inference, ...]
    tolerance: Mapping[str, Node] = field(default_factory=dict)
    quant: QuantRules = field(default_factory=QuantRules)
    #: Value of the selecting parameter ("" without one) -> kind of numbers -> an element of the result.
    each: Mapping[str, Mapping[str, Element]] = field(default_factory=dict)
    scratch: Node | None = None  # the bytes that the kernel needs
    #: Errata that a config of the op can reveal, by backend.
    errata: Mapping[str, tuple[CompiledErratum, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.definition.op

    @property
    def inputs(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if not s.output)

    @property
    def sparse(self) -> frozenset[str]:
        """The slots that an unconditional rule of the op requires to be sparse: ``require: y.sparse``."""
        wanted = [r.require for r in self.rules if r.when is None and r.strength == "require"]
        return frozenset(n.args[0].value for n in wanted if n.kind == "attr" and n.value == "sparse")

    @cached_property
    def reads_sparse(self) -> bool:
        """True if a rule reads ``sparse`` of a tensor."""
        rules = (*self.rules, *(r for rules in self.backend_rules.values() for r in rules))
        return any(".sparse" in r.text for r in rules)

    @cached_property
    def outputs(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if s.output)

    @property
    def signature(self) -> tuple[str, ...]:
        """The rules of ``SIGNATURE`` that apply to the op: PARAMS only if it has parameters."""
        return tuple(i for i in SIGNATURE if i != "PARAMS" or self.params)

    def rule_ids(self) -> tuple[str, ...]:
        """Every rule id that a verdict on this op can contain, in the order of checking."""
        own = [r.id for r in (*self.ranks, *self.rules)]
        backend = [i for b in self.definition.backends for i in
                   (*(r.id for r in self.backend_rules[b]), *([f"TYPES_{b}"] if self.type_rows[b] else []))]  # fmt: skip
        return (*self.signature, *own, *backend)

    def unchecked(self, rule: str) -> Mapping[str, Unchecked]:
        """The backends that do not check a rule of the op, where it is only a warning; {} for most rules."""
        found = ((name, b.unchecked.get(rule)) for name, b in self.definition.backends.items())
        return {name: entry for name, entry in found if entry is not None}


def expand_row(row: TypeRow) -> list[dict[str, str]]:
    """The individual combinations of a row whose cells are lists."""
    slots = list(row.cells)
    return [dict(zip(slots, combo, strict=True)) for combo in product(*row.cells.values())]


def some_of_row(row: TypeRow, most: int = 512) -> list[dict[str, str]]:
    """All combinations of a row with up to ``most``; for a larger row, enough to have each type in each cell.

    These are one combination per type with that type in every cell that allows it, and the first of them with
    each cell changed in turn.
    """
    if prod(map(len, row.cells.values())) <= most:
        return expand_row(row)
    every = dict.fromkeys(d for cell in row.cells.values() for d in cell)
    out = [{s: d if d in cell else cell[0] for s, cell in row.cells.items()} for d in every]
    out += [{**out[0], s: d} for s, cell in row.cells.items() for d in cell]
    return [dict(c) for c in dict.fromkeys(tuple(c.items()) for c in out)]


def overlap(a: TypeRow, b: TypeRow) -> bool:
    """True if the rows share a combination."""
    return all(set(cell) & set(b.cells[slot]) for slot, cell in a.cells.items())
