"""An op after type-checking: bindings, named expressions, every rule, shape inference, rows of types.

``compile_op`` is pure.  Rule ids are permanent because they are made of names: ``RANK_x``, ``SHAPE_gamma``,
``COUNT_ys``, ``DTYPE_shape``, ``STATIC_w`` are derived from the slots; ``C1``, ``H2`` are written in the spec;
``INPUTS``, ``OUTPUTS``, ``PARAMS`` and ``TYPES_<backend>`` are the same for every op.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from opdb.dtypes import BY_SHORT
from opdb.lang.functions import FUNCTIONS
from opdb.lang.nodes import BOOL, DTYPE, FLOAT, INT, INTS, ROWS, STR, TENSOR, TENSORS, Loop, Name, Node, Scope
from opdb.lang.parse import ExpressionError, parse
from opdb.model import RESERVED, OpDef, ParamDef, Rule, TensorDef

DIMS = (0, 2**31 - 1)
RANGES = {"u8": (0, 255), "u16": (0, 65535), "u32": (0, 2**32 - 1), "i8": (-128, 127), "i16": (-32768, 32767),
          "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1), "u64": (0, 2**63 - 1)}  # fmt: skip


#: What names of a spec cannot be: functions and data types of the rule language.
KNOWN = frozenset((*FUNCTIONS, *BY_SHORT, "all", "any", "sum"))
SYMBOL = re.compile(r"[A-Z][A-Za-z0-9_]*")
At = tuple[str | int, ...]


@dataclass(frozen=True)
class Fault:
    """Something wrong in a definition: where (a path in the spec's data), what, and the column offset."""

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
        """Whether the value may be missing after defaults are filled in."""
        return self.definition.optional

    @property
    def required(self) -> bool:
        return self.default is None and not self.definition.optional


@dataclass(frozen=True)
class Bind:
    """A shape symbol and the reading that gives its value; safe once the rank rules hold."""

    symbol: str
    value: Node


@dataclass(frozen=True)
class CompiledRule:
    id: str  # ex) C3
    require: Node
    when: Node | None = None
    expected: bool = False
    why: str | None = None
    source: str | None = None
    backend: str | None = None
    text: str = ""  # as written in the spec; "" for derived rules


@dataclass(frozen=True)
class Inference:
    """The shape of one output.  For a variadic output ``count`` tensors, with ``index`` bound in ``shape``."""

    output: str
    shape: Node
    count: Node | None = None
    index: str | None = None


@dataclass(frozen=True)
class TypeRow:
    """One allowed combination of data types.  ``cells`` has a set of short names for each slot."""

    id: str  # ex) HTP.INT16.3
    cells: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class CompiledOp:
    definition: OpDef
    slots: tuple[Slot, ...]
    params: tuple[Param, ...]
    scope: Scope  # of the op's own rules
    ranks: tuple[CompiledRule, ...]  # checked first: without them nothing can be bound
    binds: tuple[Bind, ...]
    lets: tuple[tuple[str, Node], ...]
    rules: tuple[CompiledRule, ...]  # derived and written, of the op definition
    backend_rules: Mapping[str, tuple[CompiledRule, ...]]
    type_rows: Mapping[str, tuple[TypeRow, ...]]
    inferences: tuple[Inference, ...]
    tolerance: Mapping[str, Node] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.definition.op

    @property
    def inputs(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if not s.output)

    @property
    def outputs(self) -> tuple[Slot, ...]:
        return tuple(s for s in self.slots if s.output)

    def rule_ids(self) -> tuple[str, ...]:
        """Every id a verdict on this op can carry, in the order of checking."""
        own = [r.id for r in (*self.ranks, *self.rules)]
        backend = [i for b in self.definition.backends for i in
                   (*(r.id for r in self.backend_rules[b]), *([f"TYPES_{b}"] if self.type_rows[b] else []))]  # fmt: skip
        return ("INPUTS", "PARAMS", "OUTPUTS", *own, *backend)


def compile_op(op: OpDef, context: Mapping[str, Mapping[str, str]] | None = None) -> CompiledOp:
    """The typed form of ``op``; ``context`` names what each backend's rules may read besides (arch: u32).

    Raises CompileError with every fault found.
    """
    return _Compiler(op, context or {}).run()


def param_type(name: str, definition: ParamDef) -> str:
    """The rule-language type of a parameter."""
    if definition.enum:
        return f"enum:{name}"
    base, dims = definition.base, definition.dims
    if dims:
        return INTS if len(dims) == 1 else ROWS
    if base.startswith(("f", "bf")):
        return FLOAT
    return {"bool8": BOOL, "str": STR}.get(base, INT)


def _literal(definition: ParamDef) -> bool:
    """Whether the default is a number, boolean, enum value or list of them."""
    words = set(re.findall(r"[A-Za-z_]\w*", re.sub(r"\d\.?\d*e[-+]?\d+", "", definition.default or "?")))
    return definition.default is not None and words <= {*definition.enum, "true", "false"}


def _shape_of(tensor: str, column: int = 0) -> Node:
    return Node("attr", INTS, (Node("name", TENSOR, value=tensor),), "shape", range=DIMS)


def _rank_of(tensor: str) -> Node:
    return Node("attr", INT, (Node("name", TENSOR, value=tensor),), "rank", range=(0, 16))


def _const(value: int) -> Node:
    return Node("const", INT, value=value, range=(value, value))


def _compare(left: Node, op: str, right: Node) -> Node:
    return Node("compare", BOOL, (left, right), (op,))


def _all(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Node("and", BOOL, tuple(parts))


def _present(name: str, type_: str) -> Node:
    return Node("call", BOOL, (Node("name", type_, value=name),), "present")


class _Compiler:
    def __init__(self, op: OpDef, context: Mapping[str, Mapping[str, str]]) -> None:
        self.op, self.context = op, context
        self.faults: list[Fault] = []
        self.names: dict[str, Name] = {}
        self.enums: dict[str, tuple[str, int]] = {}
        self.ranks: list[CompiledRule] = []
        self.binds: list[Bind] = []
        self.pending: list[tuple[str, TensorDef, bool]] = []

    # -- helpers

    def fault(self, at: tuple[str | int, ...], message: str, column: int = 0) -> None:
        self.faults.append(Fault(at, message, column))

    @property
    def scope(self) -> Scope:
        return Scope(dict(self.names), dict(self.enums))

    def parse(
        self,
        text: str,
        at: tuple[str | int, ...],
        want: str | tuple[str, ...],
        scope: Scope | None = None,
        shift: int = 0,
    ) -> Node | None:
        try:
            return parse(text, scope or self.scope, want)
        except ExpressionError as error:
            self.fault(
                at, f"{error.message}: {error.shown}" if error.text else error.message, error.column + shift
            )
            return None

    def new_name(self, name: str, value: Name, at: tuple[str | int, ...]) -> None:
        self.check_name(name, at)
        self.names[name] = value

    def check_name(self, name: str, at: At) -> None:
        if name in self.names or name in self.enums or name in KNOWN:
            self.fault(at, f"'{name}' already has a meaning in the rule language; choose another name")
        elif name in RESERVED:
            self.fault(at, f"'{name}' is a reserved word; choose another name")

    # -- the whole

    def run(self) -> CompiledOp:
        slots = self._slots()
        raw_params = self._params()
        self._bind_symbols()
        params = self._defaults(raw_params)
        lets = self._lets()
        derived = self._derived_rules(slots)
        inferences = self._inferences()
        rules = (*derived, *self._written_rules(self.op.constraints, ("constraints",), None, self.scope))
        backend_rules, type_rows = {}, {}
        for name, backend in self.op.backends.items():
            more = {k: Name(INT, RANGES[t]) for k, t in self.context.get(name, {}).items()} | {
                "sdk": Name(INT, (0, 2**31 - 1))
            }
            scope = self.scope.with_names(more)
            at: tuple[str | int, ...] = ("backends", name, "constraints")
            backend_rules[name] = self._written_rules(backend.constraints, at, name, scope)
            type_rows[name] = self._type_rows(name)
        tolerance = {}
        for dtype, t in self.op.tolerance.items():
            node = self.parse(t.ulp, ("tolerance", dtype, "ulp"), INT)
            if node is not None:
                tolerance[dtype] = node
        self._samples()
        if self.faults:
            raise CompileError(self.faults)
        return CompiledOp(self.op, slots, params, self.scope, tuple(self.ranks), tuple(self.binds), lets, rules,
                          backend_rules, type_rows, inferences, tolerance)  # fmt: skip

    def _slots(self) -> tuple[Slot, ...]:
        slots = []
        for group, output in ((self.op.inputs, False), (self.op.outputs, True)):
            for position, (name, d) in enumerate(group.items()):
                at = ("outputs" if output else "inputs", name)
                self.new_name(name, Name(TENSORS if d.variadic else TENSOR, None, d.optional), at)
                if output and d.optional:
                    self.fault(at, "an output cannot be optional")
                slots.append(Slot(name, d, output, position))
        if not self.op.outputs:
            self.fault(("outputs",), "an op has at least one output")
        return tuple(slots)

    def _params(self) -> list[tuple[str, ParamDef, str]]:
        out = []
        for name, d in self.op.params.items():
            type_ = param_type(name, d)
            optional, sure = d.optional or d.default is not None, _literal(d)
            self.new_name(name, Name(type_, RANGES.get(d.base), optional, sure, param=True), ("params", name))
            tables = {n.upper() for n, known in self.op.params.items() if known.enum}
            for value, number in d.enum.items():
                if self.enums.get(value, (name, number)) != (name, number):
                    self.fault(
                        ("params", name), f"the enum value '{value}' is also one of '{self.enums[value][0]}'"
                    )
                if value in self.names or value in KNOWN or value in RESERVED or value in tables:
                    self.fault(("params", name), f"the enum value '{value}' already has a meaning")
                self.enums[value] = (name, number)
            out.append((name, d, type_))
        return out

    def _defaults(self, raw: list[tuple[str, ParamDef, str]]) -> tuple[Param, ...]:
        params = []
        for name, d, type_ in raw:
            default = None
            if d.default is not None:
                default = self.parse(
                    d.default, ("params", name, "type"), type_, shift=d.type.rindex(d.default)
                )
            params.append(Param(name, d, type_, default))
        return tuple(params)

    def _bind_symbols(self) -> None:
        for name, d in self.op.inputs.items():
            if isinstance(d.shape, list) and not (d.optional or d.variadic):
                self._bind_list(name, d.shape)
        for group, output in ((self.op.inputs, False), (self.op.outputs, True)):
            self.pending += [(n, d, output) for n, d in group.items() if d.shape is not None]

    def _bind_list(self, tensor: str, dims: list[str]) -> None:
        rest = dims[0] if dims and dims[0].endswith("...") else None
        tail = dims[1:] if rest else dims
        if rest and not tail:
            self._bind(rest[:-3], _shape_of(tensor), INTS, tensor)
            return
        op = ">=" if rest else "=="
        if rest is None or tail:
            self.ranks.append(
                CompiledRule(f"RANK_{tensor}", _compare(_rank_of(tensor), op, _const(len(tail))))
            )
        for i, dim in enumerate(tail):
            if dim.isidentifier() and dim != "_":
                at = i - len(tail) if rest else i
                self._bind(dim, Node("index", INT, (_shape_of(tensor), _const(at)), range=DIMS), INT, tensor)
        if rest:
            node = Node("slice", INTS, (_shape_of(tensor), _const(-len(tail))), (False, True), range=DIMS)
            self._bind(rest[:-3], node, INTS, tensor)

    def _bind(self, symbol: str, value: Node, type_: str, tensor: str) -> None:
        if symbol in self.names and symbol not in {b.symbol for b in self.binds}:
            return  # a parameter or slot: compared, not bound
        if symbol not in self.names:
            if SYMBOL.fullmatch(symbol) is None:
                self.fault(
                    ("inputs", tensor),
                    f"a shape symbol is a capital letter and letters or digits, not '{symbol}'",
                )
            self.new_name(symbol, Name(type_, DIMS), ("inputs", tensor))
            self.binds.append(Bind(symbol, value))

    def _lets(self) -> tuple[tuple[str, Node], ...]:
        out = []
        for name, text in self.op.let.items():
            node = self.parse(text, ("let", name), (INT, INTS, FLOAT, BOOL))
            if node is not None:
                self.new_name(name, Name(node.type, node.range, let=True), ("let", name))
                out.append((name, node))
        return tuple(out)

    # -- rules from shapes

    def _derived_rules(self, slots: tuple[Slot, ...]) -> tuple[CompiledRule, ...]:
        rules: list[CompiledRule] = []
        for slot in slots:
            d, name = slot.definition, slot.name
            if d.variadic and not slot.output and d.shape is not None:
                self.fault(("inputs", name), "a variadic input has no shape; write rules instead")
            elif d.variadic and slot.output:
                rules += self._variadic_rules(name, d)
            elif isinstance(d.shape, list) and any(dim.endswith("...") for dim in d.shape[1:]):
                at = ("outputs" if slot.output else "inputs", name)
                self.fault(at, "only the first dim may stand for several; ex) [S..., N]")
            elif d.shape is not None and d.shape != "any":
                node = self._shape_rule(name, d, slot.output)
                if node is not None:
                    rules.append(
                        CompiledRule(f"SHAPE_{name}", node, _present(name, TENSOR) if d.optional else None)
                    )
            guard = _present(name, TENSOR) if d.optional else None
            if d.dtype:
                reading = Node("attr", DTYPE, (Node("name", TENSOR, value=name),), "dtype")
                choices = tuple(Node("const", DTYPE, value=c) for c in d.dtype)
                rules.append(
                    CompiledRule(f"DTYPE_{name}", Node("in", BOOL, (reading, *choices), False), guard)
                )
            if d.static:
                node = Node("attr", BOOL, (Node("name", TENSOR, value=name),), "static")
                rules.append(CompiledRule(f"STATIC_{name}", node, guard))
        return tuple(rules)

    def _shape_rule(self, name: str, d: TensorDef, output: bool) -> Node | None:
        at: tuple[str | int, ...] = ("outputs" if output else "inputs", name)
        if isinstance(d.shape, str):
            value = self.parse(d.shape, at, INTS)
            return None if value is None else _compare(_shape_of(name), "==", value)
        dims = d.shape or []
        own = {b.symbol for b in self.binds if _reads(b.value, name)}
        if dims and dims[0].endswith("..."):
            return self._rest_rule(name, dims, own, at, output or d.optional)
        if output or d.optional:
            if "_" in dims:
                parts = [_compare(_rank_of(name), "==", _const(len(dims)))]
                return _all(parts + self._dim_rules(name, dims, set(), at, 0))
            value = self.parse(f"[{', '.join(dims)}]", at, INTS)
            return None if value is None else _compare(_shape_of(name), "==", value)
        parts = self._dim_rules(name, dims, own, at, 0)
        return _all(parts) if parts else None

    def _rest_rule(
        self, name: str, dims: list[str], own: set[str], at: tuple[str | int, ...], unbound: bool
    ) -> Node | None:
        symbol, tail = dims[0][:-3], dims[1:]
        if symbol not in self.names:
            self.fault(at, f"the shape symbol '{symbol}' is not bound by any input")
            return None
        whole = Node("name", INTS, value=symbol, range=DIMS)
        if unbound:
            if not tail:
                return _compare(_shape_of(name), "==", whole)
            value = self.parse(f"cat({symbol}, [{', '.join(tail)}])", at, INTS)
            return None if value is None else _compare(_shape_of(name), "==", value)
        parts = self._dim_rules(name, tail, own, at, -len(tail))
        if symbol not in own:
            head = (
                Node("slice", INTS, (_shape_of(name), _const(-len(tail))), (False, True))
                if tail
                else _shape_of(name)
            )
            parts.insert(0, _compare(head, "==", whole))
        return _all(parts) if parts else None

    def _dim_rules(
        self, name: str, dims: list[str], own: set[str], at: tuple[str | int, ...], start: int
    ) -> list[Node]:
        """One comparison for each dim that does not bind here (a symbol seen before, or an expression)."""
        parts, seen = [], set()
        for i, dim in enumerate(dims):
            if dim == "_" or (dim in own and dim not in seen):
                seen.add(dim)
                continue
            value = self.parse(dim, at, INT)
            if value is not None:
                reading = Node("index", INT, (_shape_of(name), _const(start + i)), range=DIMS)
                parts.append(_compare(reading, "==", value))
        return parts

    def _variadic_scope(self, d: TensorDef) -> Scope:
        return self.scope.with_names({d.index: Name(INT, (0, 63))}) if d.index else self.scope

    def _variadic_rules(self, name: str, d: TensorDef) -> list[CompiledRule]:
        rules: list[CompiledRule] = []
        at: tuple[str | int, ...] = ("outputs", name)
        if d.index:
            self.check_name(d.index, (*at, "index"))
        if isinstance(d.shape, str) and d.shape != "any" and not (d.index and d.count):
            self.fault(
                at,
                "a variadic output that has a 'shape' needs 'count' and 'index' too; ex) count: 2, index: i",
            )
        if d.count is not None:
            count = self.parse(d.count, (*at, "count"), INT)
            length = Node("call", INT, (Node("name", TENSORS, value=name),), "len", range=(0, 64))
            if count is not None:
                rules.append(CompiledRule(f"COUNT_{name}", _compare(length, "==", count)))
        if isinstance(d.shape, str) and d.shape != "any" and d.index:
            value = self.parse(d.shape, (*at, "shape"), INTS, self._variadic_scope(d))
            if value is not None:
                every = Node("call", INT, (Node("name", TENSORS, value=name),), "len", range=(0, 64))
                source = Node("call", INTS, (every,), "range", range=(0, 63), checked=True)
                one = Node(
                    "index",
                    TENSOR,
                    (Node("name", TENSORS, value=name), Node("name", INT, value=d.index, range=(0, 63))),
                )
                body = _compare(Node("attr", INTS, (one,), "shape", range=DIMS), "==", value)
                rules.append(
                    CompiledRule(
                        f"SHAPE_{name}", Node("comp", BOOL, (body,), ("all", (Loop(d.index, source),)))
                    )
                )
        return rules

    def _inferences(self) -> tuple[Inference, ...]:
        out = []
        for name, d in self.op.outputs.items():
            at: tuple[str | int, ...] = ("outputs", name)
            if d.shape is None or d.shape == "any" or any(f.at[:2] == at for f in self.faults):
                continue  # not inferable, or its rule could not be made
            if d.variadic:
                count = self.parse(d.count or "0", (*at, "count"), INT)
                shape = self.parse(str(d.shape), (*at, "shape"), INTS, self._variadic_scope(d))
                if count is not None and shape is not None:
                    out.append(Inference(name, shape, count, d.index))
                continue
            text = d.shape if isinstance(d.shape, str) else _list_text(d.shape)
            node = self.parse(text, at, INTS)
            if node is not None:
                out.append(Inference(name, node))
        return tuple(out)

    # -- rules as written

    def _written_rules(
        self, rules: Mapping[str, Rule], at: tuple[str | int, ...], backend: str | None, scope: Scope
    ) -> tuple[CompiledRule, ...]:
        out = []
        for ident, rule in rules.items():
            key = "require" if rule.require is not None else "expect"
            require = self.parse(rule.expression, (*at, ident, key), BOOL, scope)
            when = self.parse(rule.when, (*at, ident, "when"), BOOL, scope) if rule.when is not None else None
            if require is not None:
                out.append(
                    CompiledRule(
                        ident,
                        require,
                        when,
                        rule.expect is not None,
                        rule.why,
                        rule.source,
                        backend,
                        rule.expression,
                    )
                )
        return tuple(out)

    def _type_rows(self, backend: str) -> tuple[TypeRow, ...]:
        rows = []
        for config, group in self.op.backends[backend].dtypes.items():
            for number, row in enumerate(group, 1):
                at: tuple[str | int, ...] = ("backends", backend, "dtypes", config, number - 1)
                for slot, cell in row.items():
                    if slot not in self.op.slots:
                        self.fault(
                            (*at, slot), f"no input or output '{slot}'; known: {', '.join(self.op.slots)}"
                        )
                    for dtype in cell:
                        if dtype not in BY_SHORT:
                            self.fault((*at, slot), f"'{dtype}' is not a data type; ex) f32, uq8")
                for slot in self.op.slots:
                    if slot not in row:
                        self.fault(at, f"the row has no cell for '{slot}'")
                rows.append(
                    TypeRow(f"{backend}.{config}.{number}", {s: tuple(row.get(s, ())) for s in self.op.slots})
                )
        return tuple(rows)

    def _samples(self) -> None:
        known = {*self.op.inputs, *self.op.params, *self.op.outputs}
        for i, sample in enumerate(self.op.samples):
            for name in sample:
                if name not in known:
                    self.fault(
                        ("samples", i, name),
                        f"no input or parameter '{name}'; known: {', '.join(sorted(known))}",
                    )
                elif name in self.op.slots and not _is_shape(sample[name], self.op.slots[name].variadic):
                    example = "[[2, 3], [2, 4]]" if self.op.slots[name].variadic else "[2, 3]"
                    self.fault(("samples", i, name), f"the sample of a tensor is its shape; ex) {example}")


def _is_shape(value: object, variadic: bool) -> bool:
    if not isinstance(value, list):
        return False
    return all(_is_shape(v, False) if variadic else type(v) is int and v >= 0 for v in value)


def _reads(node: Node, tensor: str) -> bool:
    return (node.kind == "name" and node.value == tensor) or any(_reads(a, tensor) for a in node.args)


def _list_text(dims: list[str]) -> str:
    if dims and dims[0].endswith("..."):
        head, tail = dims[0][:-3], dims[1:]
        return f"cat({head}, [{', '.join(tail)}])" if tail else head
    return f"[{', '.join(dims)}]"


def expand_row(row: TypeRow) -> list[dict[str, str]]:
    """The single combinations of a row whose cells hold lists."""
    slots = list(row.cells)
    return [dict(zip(slots, combo, strict=True)) for combo in product(*row.cells.values())]
