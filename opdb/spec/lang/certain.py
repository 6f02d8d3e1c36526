"""Evaluates conditions with partial knowledge: true, false, or undecided (None).

    test = parsed("x.dtype == f16 and arch >= 73")
    test({"x.dtype": "f32"})    # False, whatever arch is

Known values are given by name: ``x.dtype`` -> a short name, ``x.encoding``, ``present(x)``, ``same_quant(x)``, ``arch``...
A condition is parsed once and evaluated many times, e.g. for every combination of data types.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ENCODINGS

Known = Mapping[str, Any]
Test = Callable[[Known], bool | None]
Value = Callable[[Known], Any]
Rule = tuple[Test | None, Test]  # when, require

UNKNOWN = object()
_SIGNS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le,
    ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def forbidden(rules: Sequence[Rule], known: Known) -> bool:
    """True if a rule is definitely broken."""
    return any((when is None or when(known) is True) and require(known) is False for when, require in rules)


@cache
def parsed(text: str) -> Test:
    """Compiles a condition of the rule language to a test."""
    return _test(ast.parse(f"({text}\n)", mode="eval").body, {})


def _test(node: ast.expr, alias: Mapping[str, str]) -> Test:
    match node:
        case ast.BoolOp():
            return _settled([_test(v, alias) for v in node.values], isinstance(node.op, ast.Or))
        case ast.UnaryOp(op=ast.Not()):
            return _denied(_test(node.operand, alias))
        case ast.IfExp():
            return _chosen(*(_test(n, alias) for n in (node.test, node.body, node.orelse)))
        case ast.Compare():
            terms = [node.left, *node.comparators]
            pairs = zip(node.ops, terms, terms[1:], strict=False)
            return _settled([_compared(o, a, b, alias) for o, a, b in pairs], False)
        case ast.Call(func=ast.Name(id="all" | "any"), args=[ast.GeneratorExp() as loop]):
            return _over(loop, alias)
    value = _value(node, alias)

    def plain(known: Known) -> bool | None:
        found = value(known)
        return found if isinstance(found, bool) else None

    return plain


def _settled(parts: Sequence[Test], decisive: bool) -> Test:
    """``decisive`` if any part is; else None if any part is open; else the opposite."""

    def test(known: Known) -> bool | None:
        found: bool | None = not decisive
        for part in parts:
            said = part(known)
            if said is decisive:
                return decisive
            if said is None:
                found = None
        return found

    return test


def _denied(inner: Test) -> Test:
    def test(known: Known) -> bool | None:
        said = inner(known)
        return None if said is None else not said

    return test


def _chosen(decides: Test, then: Test, otherwise: Test) -> Test:
    def test(known: Known) -> bool | None:
        said, a, b = decides(known), then(known), otherwise(known)
        return a if said or a == b else b if said is False else None

    return test


def _open(known: Known) -> bool | None:
    return None


def _over(loop: ast.GeneratorExp, alias: Mapping[str, str]) -> Test:
    """``all`` and ``any`` over a variadic slot; its tensors count as alike, and there is at least one."""
    conditions: list[ast.expr] = []
    for g in loop.generators:
        if not (isinstance(g.target, ast.Name) and isinstance(g.iter, ast.Name)):
            return _open
        alias = {**alias, g.target.id: g.iter.id}
        conditions += g.ifs
    chosen, each = [_test(c, alias) for c in conditions], _test(loop.elt, alias)

    def test(known: Known) -> bool | None:
        return each(known) if all(c(known) is True for c in chosen) else None

    return test


def _compared(op: ast.cmpop, left: ast.expr, right: ast.expr, alias: Mapping[str, str]) -> Test:
    a = _value(left, alias)
    if isinstance(op, (ast.In, ast.NotIn)):
        if not isinstance(right, (ast.Tuple, ast.List)):
            return _open
        return _among(a, [_value(c, alias) for c in right.elts], isinstance(op, ast.In))
    b, sign = _value(right, alias), _SIGNS.get(type(op))
    if sign is None:
        return _open

    def test(known: Known) -> bool | None:
        x, y = a(known), b(known)
        return None if x is UNKNOWN or y is UNKNOWN else bool(sign(x, y))

    return test


def _among(a: Value, choices: Sequence[Value], inside: bool) -> Test:
    def test(known: Known) -> bool | None:
        x = a(known)
        if x is UNKNOWN:
            return None
        found = [c(known) for c in choices]
        if x in [c for c in found if c is not UNKNOWN]:
            return inside
        return None if UNKNOWN in found else not inside

    return test


def _value(node: ast.expr, alias: Mapping[str, str]) -> Value:
    """A number, a truth value, or the name of a data type or encoding; UNKNOWN if it is not known."""
    match node:
        case ast.Constant(value=value):
            return lambda known: value
        case ast.Name(id=name):
            if name in BY_SHORT or name in ENCODINGS or name == "NONE":
                return lambda known: name
            return _named(name)
        case ast.Attribute(value=of, attr=attribute):
            slot = _slot(of, alias)
            return _nothing if slot is None else _named(f"{slot}.{attribute}")
        case ast.Call(func=ast.Name(id="present"), args=[of]):
            return _named(f"present({_slot(of, alias)})")
        case ast.Call(func=ast.Name(id="same_quant"), args=args):
            names = [f"same_quant({_slot(a, alias)})" for a in args]
            return lambda known: next((known[n] for n in names if n in known), UNKNOWN)
    return _nothing


def _named(name: str) -> Value:
    return lambda known: known.get(name, UNKNOWN)


def _nothing(known: Known) -> Any:
    return UNKNOWN


def _slot(node: ast.expr, alias: Mapping[str, str]) -> str | None:
    """The slot of a tensor given by name, by a variable over the slot, or by an index into it; else None."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return alias.get(node.id, node.id) if isinstance(node, ast.Name) else None
