"""Prints typed nodes as canonical text of the rule language; parsing the text returns the same nodes."""

from __future__ import annotations

from opdb.spec.lang.nodes import FLOAT, STR, Node

# Binding strengths, weakest first, as in Python.
IF, OR, AND, NOT, COMPARE, ADD, MULTIPLY, NEGATE, ATOM = range(1, 10)
STRENGTH = {"+": ADD, "-": ADD, "*": MULTIPLY, "//": MULTIPLY, "%": MULTIPLY, "/": MULTIPLY}


def strength(node: Node) -> int:
    """The binding strength of the outermost operator of ``node``."""
    if node.kind == "const" and node.type in ("int", FLOAT) and node.value < 0:
        return NEGATE
    if node.kind == "arith":
        return STRENGTH[node.value]
    kinds = {"if": IF, "or": OR, "and": AND, "not": NOT, "compare": COMPARE, "in": COMPARE, "neg": NEGATE}
    return kinds.get(node.kind, ATOM)


def to_text(node: Node, at_least: int = IF) -> str:
    """The text of ``node``, in parentheses if it binds weaker than ``at_least``."""
    text = _text(node)
    return f"({text})" if strength(node) < at_least else text


def constant(node: Node) -> str:
    if node.type == STR:
        return repr(node.value)
    return str(node.value) if node.type != "bool" else str(node.value).lower()


def _text(node: Node) -> str:
    kind, args = node.kind, node.args
    if kind == "const":
        return constant(node)
    if kind == "name":
        return str(node.value)
    if kind == "attr":
        return f"{to_text(args[0], ATOM)}.{node.value}"
    if kind == "index":
        return f"{to_text(args[0], ATOM)}[{to_text(args[1])}]"
    if kind == "slice":
        bounds = [to_text(a) for a in args[1:]]
        low = bounds.pop(0) if node.value[0] else ""
        return f"{to_text(args[0], ATOM)}[{low}:{bounds[0] if node.value[1] else ''}]"
    if kind == "call":
        name = "sum" if node.value == "sum_of" else node.value
        return f"{name}({', '.join(to_text(a) for a in args)})"
    if kind == "list":
        return "[" + ", ".join(to_text(a) for a in args) + "]"
    if kind == "neg":
        return f"-{to_text(args[0], ATOM)}"
    if kind == "not":
        return f"not {to_text(args[0], NOT)}"
    if kind == "arith":
        own = STRENGTH[node.value]
        return f"{to_text(args[0], own)} {node.value} {to_text(args[1], own + 1)}"
    if kind in ("and", "or"):  # an `and` inside an `or` reads better in parentheses
        return f" {kind} ".join(to_text(a, AND + 1) for a in args)
    if kind == "compare":
        rest = "".join(f" {op} {to_text(a, ADD)}" for op, a in zip(node.value, args[1:], strict=True))
        return to_text(args[0], ADD) + rest
    if kind == "in":
        choices = ", ".join(to_text(a) for a in args[1:]) + ("," if len(args) == 2 else "")
        return f"{to_text(args[0], ADD)} {'not in' if node.value else 'in'} ({choices})"
    if kind == "if":
        return f"{to_text(args[0], OR)} if {to_text(args[1], OR)} else {to_text(args[2], IF)}"
    return _comprehension(node)


def _comprehension(node: Node) -> str:
    function, loops = node.value
    text = to_text(node.args[0])
    for loop in loops:
        text += f" for {loop.var} in {to_text(loop.source, OR)}"
        text += "".join(f" if {to_text(c, OR)}" for c in loop.conditions)
    return f"[{text}]" if function == "list" else f"{function}({text})"
