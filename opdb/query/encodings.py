"""Which data types and encodings the ports of an op may have together on one target, read off its type rows and rules.

    Ports(Store(url), "HTP", 75, "2.47").variants("Conv2d")    # one per combination of data types

A rule is looked at with the data types of one combination, the encoding of one port, and the SoC and SDK: all else is
unknown.  Only what it forbids for certain counts, so a variant asks for no more than the rules do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from opdb.dtypes import BY_SHORT
from opdb.op_config import ENCODINGS
from opdb.query.definitions import ops, rules, types, unchecked
from opdb.query.rows import Filters, Row, View, declared
from opdb.sdk import sdk_number
from opdb.store import Store

_AXES = range(8)  # HTP takes tensors of rank 8 at most
_ALONG = ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCKWISE_EXPANSION", "VECTOR")

#: What a rule must read to say anything here.
_ENCODED = re.compile(r"\.(?:encoding|symmetric|axis)\b|\bsame_quant\b")
_READ = re.compile(rf"\.dtype\b|\bpresent\(|{_ENCODED.pattern}")
_Rule = tuple[ast.expr | None, ast.expr]  # when, require


@dataclass(frozen=True)
class Encodings:
    """Encodings that a port may have, and what is asked of them."""

    names: tuple[str, ...]
    symmetric: bool  # zero must be the middle
    axes: tuple[int, ...] | None  # the axes that are allowed; None: all, or the encodings have none
    shared: bool  # the encoding must be that of another port of the op


@dataclass(frozen=True)
class Port:
    slot: str
    dtype: str  # short name
    variadic: bool
    optional: bool
    encodings: tuple[Encodings, ...]  # none for a type that is not quantised


@dataclass(frozen=True)
class Variant:
    """One combination of data types."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


class Ports:
    """The variants of every op on one target; the definitions are read once."""

    def __init__(self, store: Store, backend: str, arch: int, sdk: str, soc_model: int | None = None) -> None:
        self.values: dict[str, Any] = {"arch": arch, "sdk": sdk_number(sdk)}
        self.values |= {} if soc_model is None else {"soc_model": soc_model}
        with store.reading() as connection:
            view = View(connection, Filters(backend=backend, sdk=sdk))
            self.slots = {r["op"]: r for r in ops(view)}
            self.rows: dict[str, list[Row]] = {}
            for row in types(view):
                self.rows.setdefault(row["op"], []).append(row)
            self.rules: dict[str, list[_Rule]] = {}
            self.encoded: dict[str, list[_Rule]] = {}  # those of them that read encodings
            whole = View(connection, Filters())
            exempt = unchecked(whole)
            for r in rules(whole):
                free = exempt.get((r["op"], r["rule"]), {}).get(backend)
                if free is not None and declared(free["since"], free["until"], sdk):
                    continue
                asked = (
                    r["kind"] == "written" and r["strength"] == "require" and r["backend"] in (None, backend)
                )
                if asked and _READ.search(f"{r['when']} {r['expression']}"):
                    when = None if r["when"] is None else _parsed(r["when"])
                    rule = (when, _parsed(r["expression"]))
                    self.rules.setdefault(r["op"], []).append(rule)
                    if _ENCODED.search(f"{r['when']} {r['expression']}"):
                        self.encoded.setdefault(r["op"], []).append(rule)

    def supported(self) -> list[str]:
        """The ops that have a type row on the target."""
        return sorted(self.rows)

    def variants(self, op: str) -> list[Variant]:
        """Each combination of data types once; [] for an op that the target has not."""
        found: dict[tuple[str, ...], Variant] = {}
        for row in self.rows.get(op, ()):
            cells = [cell.split(": ") for cell in row["cells"].split(", ")]
            for combo in product(*(dtypes.split("|") for _, dtypes in cells)):
                if combo not in found and (
                    made := self._variant(op, {s: d for (s, _), d in zip(cells, combo, strict=True)})
                ):
                    found[combo] = made
        return list(found.values())

    def _variant(self, op: str, dtypes: Mapping[str, str]) -> Variant | None:
        """None where the rules forbid the combination, whatever the encodings are."""
        slots = self.slots[op]
        known = {f"{slot}.dtype": dtype for slot, dtype in dtypes.items()} | self.values
        names = {g: [n for n in (slots[g] or "").split(", ") if n] for g in ("inputs", "outputs")}
        plain = {n: n.rstrip("?.") for g in names.values() for n in g}
        known |= {f"present({plain[n]})": True for n in plain if not n.endswith("?")}
        rules = self.rules.get(op, ())
        if _forbidden(rules, known):
            return None
        made: dict[str, tuple[Port, ...]] = {}
        for group, slot_names in names.items():
            ports = []
            for n in slot_names:
                slot = plain[n]
                given = {**known, f"present({slot})": True}
                if _forbidden(rules, given):
                    if not _forbidden(rules, {k: v for k, v in given.items() if k != f"{slot}.dtype"}):
                        return None  # with another data type it may be given
                    break  # it must be left out, and so what comes after it
                allowed = tuple(self._encodings(op, slot, dtypes[slot], known, group == "outputs"))
                if BY_SHORT[dtypes[slot]].quantized and not allowed:
                    return None
                ports.append(Port(slot, dtypes[slot], n.endswith("..."), n.endswith("?"), allowed))
            made[group] = tuple(ports)
        return Variant(**made)

    def _encodings(
        self, op: str, slot: str, dtype: str, known: Mapping[str, Any], output: bool
    ) -> Iterator[Encodings]:
        if not BY_SHORT[dtype].quantized:
            return
        rules = self.encoded.get(op, ())
        groups: dict[tuple[bool, tuple[int, ...] | None, bool], list[str]] = {}
        for encoding in ENCODINGS:
            here = {**known, f"present({slot})": True, f"{slot}.encoding": encoding}
            if _forbidden(rules, here):
                continue
            symmetric = _forbidden(rules, {**here, f"{slot}.symmetric": False})
            shared = output and _forbidden(rules, {**here, f"same_quant({slot})": False})
            axes = None
            if encoding in _ALONG:
                axes = tuple(a for a in _AXES if not _forbidden(rules, {**here, f"{slot}.axis": a}))
                axes = None if len(axes) == len(_AXES) else axes
            groups.setdefault((symmetric, axes, shared), []).append(encoding)
        for (symmetric, axes, shared), encodings in groups.items():
            yield Encodings(tuple(encodings), symmetric, axes, shared)


def _forbidden(rules: Sequence[_Rule], known: Mapping[str, Any]) -> bool:
    """Whether a rule is broken for certain."""
    return any(
        (when is None or _truth(when, known, {}) is True) and _truth(require, known, {}) is False
        for when, require in rules
    )


def _parsed(text: str) -> ast.expr:
    return ast.parse(f"({text}\n)", mode="eval").body


UNKNOWN = object()


def _truth(node: ast.expr, known: Mapping[str, Any], alias: Mapping[str, str]) -> bool | None:
    """The truth of a condition; None where what is known does not settle it."""
    match node:
        case ast.BoolOp():
            parts = [_truth(v, known, alias) for v in node.values]
            decisive = isinstance(node.op, ast.Or)
            return decisive if decisive in parts else None if None in parts else not decisive
        case ast.UnaryOp(op=ast.Not()):
            value = _truth(node.operand, known, alias)
            return None if value is None else not value
        case ast.IfExp():
            test = _truth(node.test, known, alias)
            then, otherwise = _truth(node.body, known, alias), _truth(node.orelse, known, alias)
            return then if test or then == otherwise else otherwise if test is False else None
        case ast.Compare():
            terms = [node.left, *node.comparators]
            parts = [
                _compared(o, a, b, known, alias) for o, a, b in zip(node.ops, terms, terms[1:], strict=False)
            ]
            return False if False in parts else None if None in parts else True
        case ast.Call(func=ast.Name(id="all" | "any" as name), args=[ast.GeneratorExp() as loop]):
            return _over(name, loop, known, alias)
    value = _value(node, known, alias)
    return value if isinstance(value, bool) else None


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
    if any(_truth(c, known, alias) is not True for c in conditions):
        return None
    return _truth(loop.elt, known, alias)


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
