"""What a condition says for certain where little is known: true, false, or nothing (None).

Known are values by name: ``x.dtype`` -> a short name, ``x.encoding``, ``present(x)``, ``same_quant(x)``, ``arch``...
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opdb.dtypes import BY_SHORT
from opdb.op_config import ENCODINGS

Rule = tuple[ast.expr | None, ast.expr]  # when, require


def forbidden(rules: Sequence[Rule], known: Mapping[str, Any]) -> bool:
    """Whether a rule is broken for certain."""
    return any(
        (when is None or truth(when, known, {}) is True) and truth(require, known, {}) is False
        for when, require in rules
    )


def parsed(text: str) -> ast.expr:
    """An expression of the rule language, as Python reads it."""
    return ast.parse(f"({text}\n)", mode="eval").body


UNKNOWN = object()


def truth(node: ast.expr, known: Mapping[str, Any], alias: Mapping[str, str]) -> bool | None:
    """The truth of a condition; None where what is known does not settle it."""
    match node:
        case ast.BoolOp():
            decisive = isinstance(node.op, ast.Or)
            return _settled((truth(v, known, alias) for v in node.values), decisive)
        case ast.UnaryOp(op=ast.Not()):
            value = truth(node.operand, known, alias)
            return None if value is None else not value
        case ast.IfExp():
            test = truth(node.test, known, alias)
            then, otherwise = truth(node.body, known, alias), truth(node.orelse, known, alias)
            return then if test or then == otherwise else otherwise if test is False else None
        case ast.Compare():
            terms = [node.left, *node.comparators]
            pairs = zip(node.ops, terms, terms[1:], strict=False)
            return _settled((_compared(o, a, b, known, alias) for o, a, b in pairs), False)
        case ast.Call(func=ast.Name(id="all" | "any" as name), args=[ast.GeneratorExp() as loop]):
            return _over(name, loop, known, alias)
    value = _value(node, known, alias)
    return value if isinstance(value, bool) else None


def _settled(parts: Iterable[bool | None], decisive: bool) -> bool | None:
    """``decisive`` if one part is; None if one is open; the opposite otherwise."""
    found: bool | None = not decisive
    for part in parts:
        if part is decisive:
            return decisive
        if part is None:
            found = None
    return found


def _over(
    name: str, loop: ast.GeneratorExp, known: Mapping[str, Any], alias: Mapping[str, str]
) -> bool | None:
    """``all`` and ``any`` over the tensors of a variadic slot, which are alike; a slot has at least one."""
    conditions: list[ast.expr] = []
    for g in loop.generators:
        if isinstance(g.target, ast.Name) and isinstance(g.iter, ast.Name):
            alias = {**alias, g.target.id: g.iter.id}
        else:
            return None
        conditions += g.ifs
    if any(truth(c, known, alias) is not True for c in conditions):
        return None
    return truth(loop.elt, known, alias)


def _compared(
    op: ast.cmpop, left: ast.expr, right: ast.expr, known: Mapping[str, Any], alias: Mapping[str, str]
) -> bool | None:
    a = _value(left, known, alias)
    if isinstance(op, (ast.In, ast.NotIn)) and isinstance(right, (ast.Tuple, ast.List)):
        choices = [_value(c, known, alias) for c in right.elts]
        if a is UNKNOWN:
            return None
        if a in [c for c in choices if c is not UNKNOWN]:
            return isinstance(op, ast.In)
        return None if UNKNOWN in choices else isinstance(op, ast.NotIn)
    b = _value(right, known, alias)
    if a is UNKNOWN or b is UNKNOWN:
        return None
    match op:
        case ast.Eq():
            return bool(a == b)
        case ast.NotEq():
            return bool(a != b)
        case ast.Lt():
            return bool(a < b)
        case ast.LtE():
            return bool(a <= b)
        case ast.Gt():
            return bool(a > b)
        case ast.GtE():
            return bool(a >= b)
    return None


def _value(node: ast.expr, known: Mapping[str, Any], alias: Mapping[str, str]) -> Any:
    """A number, a truth value, the name of a data type or encoding; UNKNOWN where nothing says."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            if node.id in BY_SHORT or node.id in ENCODINGS or node.id == "NONE":
                return node.id
            return known.get(node.id, UNKNOWN)
        case ast.Attribute():
            slot = _slot(node.value, alias)
            return UNKNOWN if slot is None else known.get(f"{slot}.{node.attr}", UNKNOWN)
        case ast.Call(func=ast.Name(id="present"), args=[of]):
            return known.get(f"present({_slot(of, alias)})", UNKNOWN)
        case ast.Call(func=ast.Name(id="same_quant"), args=args):
            told = [known[k] for a in args if (k := f"same_quant({_slot(a, alias)})") in known]
            return told[0] if told else UNKNOWN
    return UNKNOWN


def _slot(node: ast.expr, alias: Mapping[str, str]) -> str | None:
    """The slot of a tensor: its name, a variable over the slot, or one of the slot's tensors by number."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return alias.get(node.id, node.id) if isinstance(node, ast.Name) else None
