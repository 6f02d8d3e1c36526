"""Analyzes expressions: the names they read, and the values a message should show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opdb.spec.lang.nodes import Loop, Node, children, walk


def free_names(node: Node) -> tuple[str, ...]:
    """The names that ``node`` reads from its scope, in order of first use."""
    found: dict[str, None] = {}
    _free(node, frozenset(), found)
    return tuple(found)


def _free(node: Node, bound: frozenset[str], found: dict[str, None]) -> None:
    if node.kind == "name" and node.value not in bound:
        found.setdefault(node.value)
    if node.kind == "comp":
        for loop in node.value[1]:
            _free(loop.source, bound, found)
            bound = bound | {loop.var}
            for condition in loop.conditions:
                _free(condition, bound, found)
        _free(node.args[0], bound, found)
        return
    for child in children(node):
        _free(child, bound, found)


def inlined(node: Node, named: Mapping[str, Node]) -> Node:
    """``node`` with each name of ``named`` replaced by what it stands for; no loop variable has such a name."""
    if node.kind == "name":
        return named.get(node.value, node)
    value = node.value
    if node.kind == "comp":
        function, loops = value
        value = (function, tuple(_inlined(loop, named) for loop in loops))
    return replace(node, args=tuple(inlined(a, named) for a in node.args), value=value)


def _inlined(loop: Loop, named: Mapping[str, Node]) -> Loop:
    conditions = tuple(inlined(c, named) for c in loop.conditions)
    return replace(loop, source=inlined(loop.source, named), conditions=conditions)


def atoms(node: Node, inside: tuple[str, ...] = ()) -> tuple[Node, ...]:
    """The subexpressions whose values a message shows: names of values, and attributes of tensors.

    ``inside`` names the loop variables with known values (from a failing witness); subexpressions that
    depend on other loop variables are omitted, and so are whole tensors.
    """
    found: dict[Node, None] = {}
    loops = {loop.var for n in walk(node) if n.kind == "comp" for loop in n.value[1]}
    hidden = loops - set(inside)
    for n in _readings(node):
        if not any(m.kind == "name" and m.value in hidden for m in walk(n)):
            found.setdefault(n)
    return tuple(found)


def _readings(node: Node) -> list[Node]:
    if node.kind == "attr" and node.args[0].kind == "name":
        return [node]
    if node.kind == "name":
        return [] if node.type in ("tensor", "tensors") else [node]
    if node.kind == "call" and node.value == "present":
        return []
    return [r for child in children(node) for r in _readings(child)]
