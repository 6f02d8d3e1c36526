"""Typed nodes -> one English sentence, with "must" for a rule and "is" inside a condition."""

from __future__ import annotations

from opdb.spec.lang.functions import ATTRIBUTES, FUNCTIONS
from opdb.spec.lang.nodes import Node
from opdb.spec.lang.printer import STRENGTH, to_text

WORDS = {
    "<": "less than",
    "<=": "at most",
    ">": "greater than",
    ">=": "at least",
    "==": "equal to",
    "!=": "different from",
}
#: Words for bounds on the number of dimensions.
COUNTS = {"<=": "at most ", ">=": "at least ", "==": ""}
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}


def rule_sentence(require: Node, when: Node | None = None, backend: str | None = None) -> str:
    """The sentence of a rule, e.g. "if gamma is given, the rank of x must be at most 4".

    For a backend's bound on a rank the backend is the subject: "HTP takes x of at most 4 dimensions".
    """
    text = (backend and _rank_bound(require, backend)) or sentence(require)
    return text if when is None else f"if {sentence(when, must=False)}, {text}"


def _rank_bound(node: Node, backend: str) -> str | None:
    """The sentence about ``backend`` if ``node`` compares the rank of one tensor with constants; else None."""
    if node.kind != "compare":
        return None
    ranks = [a for a in node.args if a.kind == "attr" and a.value == "rank" and a.args[0].kind == "name"]
    bounds = [str(a.value) for a in node.args if a.kind == "const"]
    if len(ranks) != 1 or len(bounds) != len(node.args) - 1:
        return None
    if tuple(node.value) == ("<=", "<=") and node.args[1] is ranks[0]:
        count = f"{bounds[0]} to {bounds[1]}"
    elif len(node.value) == 1 and node.args[0] is ranks[0] and node.value[0] in COUNTS:
        count = COUNTS[node.value[0]] + bounds[0]
    else:
        return None
    return f"{backend} takes {term(ranks[0].args[0])} of {count} dimension{'s' * (bounds[-1] != '1')}"


def sentence(node: Node, must: bool = True, yes: bool = True) -> str:
    """The sentence of a truth value; its negation if ``yes`` is False."""
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
        return f"{term(args[0])} {_among(be, choices, inside)}"
    if kind == "call" and FUNCTIONS[node.value].predicate[0]:
        return _predicate(node, must, yes)
    if kind == "comp":
        return _quantified(node, must, yes)
    if kind == "attr":
        return f"{term(args[0])} {be if yes else _negated(be)} {node.value}"
    if kind == "if":
        then, test, other = args
        return (
            f"if {sentence(test, False)}, {sentence(then, must, yes)}; otherwise {sentence(other, must, yes)}"
        )
    return f"{term(node)} {be} {'true' if yes else 'false'}"


def _among(be: str, choices: list[str], inside: bool) -> str:
    """The predicate of being one of ``choices``, or none of them."""
    if len(choices) == 1:
        return f"{be if inside else _negated(be)} {choices[0]}"
    if inside:
        return f"{be} {', '.join(choices[:-1])} or {choices[-1]}"
    if len(choices) == 2:
        return f"{be} neither {choices[0]} nor {choices[1]}"
    return f"{be} none of {', '.join(choices[:-1])} and {choices[-1]}"


def _negated(be: str) -> str:
    return "must not be" if be == "must be" else "is not"


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
        return f"{term(left.args[0])} {be if op == '==' else _negated(be)} divisible by {term(left.args[1])}"
    if zero and op == ">":
        return f"{term(left)} {be} positive"
    if op == "==":
        if left.kind == right.kind == "attr" and left.value == right.value:
            return f"{term(left)} {be} that of {term(right.args[0])}"
        return f"{term(left)} {be} {term(right)}"
    if op == "!=":
        return f"{term(left)} {_negated(be)} {term(right)}"
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
    body = sentence(node.args[0], must, yes)
    subject = f"{loops[0].var} "
    if (
        len(loops) == 1
        and not loops[0].conditions
        and node.args[0].kind in ("compare", "in")
        and body.startswith(subject)
    ):
        return f"{heads[0]} {body.removeprefix(subject)}"  # every a in axes must be in [0, 3)
    return f"for {', '.join(heads)}: {body}"


def _source(node: Node) -> str:
    if node.kind == "call" and node.value == "range" and len(node.args) == 1:
        return f"0 .. {term(node.args[0])} - 1"
    return term(node)


def _dimension(tensor: Node, at: Node) -> str:
    name = term(tensor)
    if at.kind in ("const", "name"):
        return f"dimension {term(at)} of {name}"
    if at.kind == "attr" and at.value == "axis" and at.args[0] == tensor:
        return f"the size of {name} along its quantization axis"
    return f"{name}.shape[{to_text(at)}]"


def term(node: Node) -> str:
    """A value in words, or the expression itself if that is easier to read."""
    kind, args = node.kind, node.args
    if kind == "attr":
        return ATTRIBUTES[node.value][2].format(term(args[0]))
    if kind == "index" and args[0].kind == "attr" and args[0].value == "shape":
        return _dimension(args[0].args[0], args[1])
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
