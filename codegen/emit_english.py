"""Typed nodes -> one English sentence.  "must" for a rule, "is" inside a condition."""

from __future__ import annotations

from opdb.lang.functions import ATTRIBUTES, FUNCTIONS
from opdb.lang.nodes import Node
from opdb.lang.printer import STRENGTH, to_text

WORDS = {
    "<": "less than",
    "<=": "at most",
    ">": "greater than",
    ">=": "at least",
    "==": "equal to",
    "!=": "different from",
}
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def rule_sentence(require: Node, when: Node | None = None) -> str:
    """The sentence of a rule; ex) "if gamma is given, the rank of x must be at most 4"."""
    text = sentence(require)
    return text if when is None else f"if {sentence(when, must=False)}, {text}"


def sentence(node: Node, must: bool = True, yes: bool = True) -> str:
    """The sentence of a truth value; ``yes=False`` says the negation."""
    kind, args = node.kind, node.args
    if kind == "not":
        return sentence(args[0], must, not yes)
    if kind in ("and", "or"):
        return _junction(node, must, yes)
    if kind == "compare":
        return _comparison(node, must, yes)
    be = "must be" if must else "is"
    if kind == "in":
        inside = yes != node.value
        choices = [term(a) for a in args[1:]]
        if len(choices) == 1:
            return f"{term(args[0])} {be} {'' if inside else 'not '}{choices[0]}"
        listed = ", ".join(choices[:-1]) + f" or {choices[-1]}"
        return f"{term(args[0])} {be} {'' if inside else 'neither '}{listed}"
    if kind == "call" and FUNCTIONS[node.value].predicate[0]:
        return _predicate(node, must, yes)
    if kind == "comp":
        return _quantified(node, must, yes)
    if kind == "attr":
        negation = "" if yes else "not "
        return f"{term(args[0])} {be} {negation}{node.value}"
    if kind == "if":
        then, test, other = args
        return (
            f"if {sentence(test, False)}, {sentence(then, must, yes)}; otherwise {sentence(other, must, yes)}"
        )
    return f"{term(node)} {be} {'true' if yes else 'false'}"


def _junction(node: Node, must: bool, yes: bool) -> str:
    word = node.kind if yes else {"and": "or", "or": "and"}[node.kind]
    args = node.args
    if node.kind == "or" and yes and args[0].kind == "not" and must:
        rest = args[1] if len(args) == 2 else Node("or", "bool", args[1:])
        return f"if {sentence(args[0].args[0], must=False)}, {sentence(rest, must)}"
    parts = []
    for a in args:
        part = sentence(a, must, yes)
        parts.append(f"({part})" if a.kind in ("and", "or") and a.kind != node.kind else part)
    return f" {word} ".join(parts)


def _comparison(node: Node, must: bool, yes: bool) -> str:
    be = "must be" if must else "is"
    ops, args = node.value, node.args
    if len(ops) == 2 and ops[0] in ("<", "<=") and ops[1] in ("<", "<="):
        low, high = ("[" if ops[0] == "<=" else "("), ("]" if ops[1] == "<=" else ")")
        return f"{term(args[1])} {be} {'' if yes else 'outside '}{'in ' if yes else ''}{low}{term(args[0])}, {term(args[2])}{high}"
    parts = []
    for left, op, right in zip(args, ops, args[1:], strict=False):
        parts.append(_one_comparison(left, op if yes else OPPOSITE[op], right, be))
    return (" and " if yes else " or ").join(parts)


def _one_comparison(left: Node, op: str, right: Node, be: str) -> str:
    zero = right.kind == "const" and right.value == 0 and right.type in ("int", "float")
    if zero and op in ("==", "!=") and left.kind == "arith" and left.value == "%":
        return f"{term(left.args[0])} {be} {'' if op == '==' else 'not '}divisible by {term(left.args[1])}"
    if zero and op == ">":
        return f"{term(left)} {be} positive"
    if op == "==":
        same = left.kind == right.kind == "attr" and left.value == right.value
        if same:
            return f"{term(left)} {be} that of {term(right.args[0])}"
        return f"{term(left)} {be} {term(right)}"
    if op == "!=":
        return f"{term(left)} {be} other than {term(right)}"
    return f"{term(left)} {be} {WORDS[op]} {term(right)}"


def _predicate(node: Node, must: bool, yes: bool) -> str:
    affirmed, denied = FUNCTIONS[node.value].predicate
    verb = affirmed if yes else denied
    args = [term(a) for a in node.args]
    verb = verb.format(*args)
    if must:
        return f"{args[0]} must {verb}"
    plural = node.value in ("unique", "increasing", "contains")
    for infinitive, finite in (("not be ", "is not "), ("be ", "is "), ("not have ", "does not have "), ("have ", "has "),
                               ("not contain ", "does not contain "), ("contain ", "contains ")):  # fmt: skip
        if verb.startswith(infinitive):
            return f"{args[0]} {finite}{verb.removeprefix(infinitive)}"
    return f"{args[0]} {'do' if plural else 'does'} {verb}"


def _quantified(node: Node, must: bool, yes: bool) -> str:
    function, loops = node.value
    word = {"all": "every", "any": "some"}[function] if yes else {"all": "some", "any": "every"}[function]
    heads = []
    for loop in loops:
        where = "".join(f" where {sentence(c, must=False)}" for c in loop.conditions)
        heads.append(f"{word} {loop.var} in {_source(loop.source)}{where}")
    return f"for {', '.join(heads)}: {sentence(node.args[0], must, yes)}"


def _source(node: Node) -> str:
    if node.kind == "call" and node.value == "range" and len(node.args) == 1:
        return f"0 .. {term(node.args[0])} - 1"
    return term(node)


def term(node: Node) -> str:
    """A value in words where that is shorter to read than the expression itself."""
    kind, args = node.kind, node.args
    if kind == "attr":
        return ATTRIBUTES[node.value][2].format(term(args[0]))
    if kind == "index" and args[0].kind == "attr" and args[0].value == "shape":
        return f"dimension {term(args[1])} of {term(args[0].args[0])}"
    if kind == "index":
        return f"{term(args[0])}[{to_text(args[1])}]"
    if kind == "arith":
        parts = []
        for side, a in enumerate(args):
            weaker = a.kind == "arith" and STRENGTH[a.value] < STRENGTH[node.value] + side
            parts.append(f"({term(a)})" if weaker else term(a))
        return f"{parts[0]} {node.value} {parts[1]}"
    if kind == "call" and FUNCTIONS[node.value].english:
        if node.value == "range" and len(args) == 1:
            return f"the integers from 0 to {term(args[0])} - 1"
        return FUNCTIONS[node.value].english.format(*(term(a) for a in args))
    if kind == "if":
        return f"({term(args[0])} if {sentence(args[1], must=False)}, else {term(args[2])})"
    if kind == "list":
        return "[" + ", ".join(term(a) for a in args) + "]"
    return to_text(node)
