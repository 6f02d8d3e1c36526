"""Typed nodes -> Python expressions over the functions of opdb.runtime.checks."""

from __future__ import annotations

from collections.abc import Mapping

from opdb.codegen.environment import python_string
from opdb.spec.lang.functions import FUNCTIONS
from opdb.spec.lang.nodes import (
    DTYPE,
    ENCODING,
    FLOAT,
    STR,
    TENSOR_TYPE,
    TENSORS,
    Loop,
    Name,
    Node,
    is_enum,
    walk,
)
from opdb.spec.lang.printer import ADD, AND, ATOM, IF, OR, STRENGTH, strength

CHECKED = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "floormod", "/": "divide"}
COMPREHENSIONS = {
    "all": "all",
    "any": "any",
    "sum": "sum_of",
    "min": "smallest",
    "max": "largest",
    "list": "listed",
}
Names = Mapping[str, Name]


def expression(node: Node, names: Names, at_least: int = IF) -> str:
    """The Python text of ``node``.  ``names`` tells which names may be absent (read through ``given``) or are lets."""
    text = _text(node, names)
    binds = ATOM if _is_helper(node) or (_compares_lists(node) and node.value[0] == "==") else strength(node)
    return f"({text})" if binds < at_least else text


def helpers(nodes: list[Node], names: Names) -> set[str]:
    """The functions of opdb.runtime.checks that the texts of ``nodes`` call."""
    used: set[str] = set()
    parts = [n for top in nodes for n in walk(top)]
    asked = {id(n.args[0]) for n in parts if n.kind == "call" and n.value == "present"}  # not read
    for node in parts:
        if node.kind == "arith" and _is_helper(node):
            used.add(CHECKED[node.value])
        elif node.kind == "neg" and node.checked:
            used.add("neg")
        elif node.kind == "index":
            used.add("at")
        elif _compares_lists(node):
            used.add("same")
        elif node.kind == "comp":
            used.add(COMPREHENSIONS[node.value[0]])
            if any(loop.source.type == TENSORS for loop in node.value[1]):
                used.add("given")
        elif node.kind == "call" and node.value != "present":
            row = FUNCTIONS[node.value]
            if not row.torch:
                used.add(row.python)
        elif node.kind == "name" and _absent(node, names) and id(node) not in asked:
            used.add("given")
    return used - {"all", "any", "float", "len", "min", "max"}


def _absent(node: Node, names: Names) -> bool:
    known = names.get(node.value)
    return known is not None and known.absent


def _is_helper(node: Node) -> bool:
    """True if an arithmetic node becomes a call of a checked helper."""
    if node.kind != "arith":
        return False
    if node.value in ("//", "%"):
        low, high = node.args[1].range or (0, 0)
        return node.checked or low <= 0 <= high
    return node.checked


def _compares_lists(node: Node) -> bool:
    return node.kind == "compare" and node.args[0].type == "ints"


def constant(node: Node) -> str:
    if node.type in (DTYPE, ENCODING, TENSOR_TYPE):
        return f'"{node.value}"'
    if node.type == STR:
        return python_string(node.value)
    return str(node.value) if is_enum(node.type) else repr(node.value)


def _text(node: Node, names: Names) -> str:
    def sub(n: Node, at_least: int = IF) -> str:
        return expression(n, names, at_least)

    kind, args = node.kind, node.args
    if kind == "const":
        return constant(node)
    if kind == "name":
        if _absent(node, names):
            return f"given({node.value})"
        known = names.get(node.value)
        return f"{node.value}()" if known is not None and known.let else str(node.value)
    if kind == "attr":
        return f"{sub(args[0], ATOM)}.{node.value}"
    if kind == "index":
        return f"at({sub(args[0])}, {sub(args[1])})"
    if kind == "slice":
        bounds = [sub(a) for a in args[1:]]
        low = bounds.pop(0) if node.value[0] else ""
        return f"{sub(args[0], ATOM)}[{low}:{bounds[0] if node.value[1] else ''}]"
    if kind == "call":
        return _call(node, names)
    if kind == "list":
        return "[" + ", ".join(sub(a) for a in args) + "]"
    if kind == "neg":
        return f"neg({sub(args[0])})" if node.checked and node.type != FLOAT else f"-{sub(args[0], ATOM)}"
    if kind == "not":
        return f"not {sub(args[0], strength(node))}"
    if kind == "arith":
        if _is_helper(node):
            return f"{CHECKED[node.value]}({sub(args[0])}, {sub(args[1])})"
        own = STRENGTH[node.value]
        return f"{sub(args[0], own)} {node.value} {sub(args[1], own + 1)}"
    if kind in ("and", "or"):
        return f" {kind} ".join(sub(a, AND + 1) for a in args)  # also parenthesizes `and` within `or`
    if kind == "compare":
        if args[0].type == "ints":
            same = f"same({sub(args[0])}, {sub(args[1])})"
            return f"not {same}" if node.value[0] == "!=" else same
        terms = [sub(a, ADD) for a in args]
        return terms[0] + "".join(f" {op} {t}" for op, t in zip(node.value, terms[1:], strict=True))
    if kind == "in":
        choices = ", ".join(sub(a) for a in args[1:]) + ("," if len(args) == 2 else "")
        return f"{sub(args[0], ADD)} {'not in' if node.value else 'in'} ({choices})"
    if kind == "if":
        return f"{sub(args[0], OR)} if {sub(args[1], OR)} else {sub(args[2], IF)}"
    function, loops = node.value
    return f"{COMPREHENSIONS[function]}({sub(args[0])}{loops_text(loops, names)})"


def _call(node: Node, names: Names) -> str:
    if node.value == "present":
        known, name = names.get(node.args[0].value), node.args[0].value
        return f"{name}_given" if known is not None and known.param else f"({name} is not None)"
    args = ", ".join(expression(a, names) for a in node.args)
    return f"{FUNCTIONS[node.value].python}({args})"


def loops_text(loops: tuple[Loop, ...], names: Names, numbered: bool = False) -> str:
    """`` for a in axes if ...`` for each loop; ``numbered`` also binds the index, ``a_i``."""
    text = ""
    for loop in loops:
        source = expression(loop.source, names, OR)
        if loop.source.type == "tensors":
            source = f"map(given, {source})"
        text += (
            f" for {loop.var}_i, {loop.var} in enumerate({source})"
            if numbered
            else f" for {loop.var} in {source}"
        )
        text += "".join(f" if {expression(c, names, OR)}" for c in loop.conditions)
    return text
