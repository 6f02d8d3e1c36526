"""Derives rules and shape inference from the shapes, counts, and fixed types of a spec's slots.

A symbol binds at its first occurrence and is compared at later ones, so that one line of the spec is both
inference and check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from opdb.core.dtypes import BY_SHORT
from opdb.spec.backend import Need
from opdb.spec.definitions import Bind, CompiledRule, Fault, Inference, Slot
from opdb.spec.fields import RESERVED
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import BOOL, DTYPE, INT, INTS, TENSOR, TENSORS, Loop, Name, Node, Scope
from opdb.spec.lang.parse import ExpressionError, parse
from opdb.spec.model import OpDef, TensorDef

DIMS = (0, 2**31 - 1)
#: Words that names of a spec cannot be: functions and data types of the rule language.
KNOWN = frozenset((*FUNCTIONS, *BY_SHORT, "all", "any", "sum"))
SYMBOL = re.compile(r"[A-Z][A-Za-z0-9_]*")
At = tuple[str | int, ...]


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


class ShapeRules:
    """Reads the shapes of one op and collects errors in ``faults``."""

    def __init__(
        self,
        op: OpDef,
        context: Mapping[str, Mapping[str, str]],
        needs: Mapping[str, Mapping[str, Need]],
    ) -> None:
        self.op, self.context, self.needs = op, context, needs
        self.of_targets = {name for read in context.values() for name in read}
        self.faults: list[Fault] = []
        self.names: dict[str, Name] = {}
        self.enums: dict[str, tuple[str, int]] = {}
        self.ranks: list[CompiledRule] = []
        self.binds: list[Bind] = []
        self.pending: list[tuple[str, TensorDef, bool]] = []
        self.unchecked = {rule for backend in op.backends.values() for rule in backend.unchecked}

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
        elif name in RESERVED or name in self.of_targets:
            self.fault(at, f"'{name}' is a reserved word; choose another name")

    # -- the whole

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
            sure = f"RANK_{tensor}" not in self.unchecked
            self.new_name(symbol, Name(type_, DIMS, let=not sure), ("inputs", tensor))
            self.binds.append(Bind(symbol, value, sure))

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
                self.fault(at, "only the first dim may stand for several; e.g. [S..., N]")
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
        """One comparison for each dim that does not bind here (a repeated symbol, or an expression)."""
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
                "a variadic output that has a 'shape' needs 'count' and 'index' too; e.g. count: 2, index: i",
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


def is_shape(value: object, variadic: bool) -> bool:
    if not isinstance(value, list):
        return False
    return all(is_shape(v, False) if variadic else type(v) is int and v >= 0 for v in value)


def _reads(node: Node, tensor: str) -> bool:
    return (node.kind == "name" and node.value == tensor) or any(_reads(a, tensor) for a in node.args)


def _list_text(dims: list[str]) -> str:
    if dims and dims[0].endswith("..."):
        head, tail = dims[0][:-3], dims[1:]
        return f"cat({head}, [{', '.join(tail)}])" if tail else head
    return f"[{', '.join(dims)}]"
