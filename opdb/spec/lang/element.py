"""A kernel's formula for one element of each input: text in Python's syntax -> typed nodes.

E.g. ``a + b``, ``x if x > 0 else alpha * expm1(x)``.  The names are the op's inputs and scalar parameters; the
operators are Python's; the functions are those of FUNCTIONS.  Numbers are real or whole (int64, which wraps); there
are also truth values.  An expression is valid for the kinds that all its parts support.  Real results are
rounded to float32 once: an expression with more than one rounding is computed in double.  Functions approximated in
float32 (``approximate``), and expressions of them, are off by a few units in the last place; if an approximation only
works for small arguments (``limit``), larger elements are computed in double.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

from opdb.core.guess import did_you_mean
from opdb.spec.lang.parse import ExpressionError, tree_of

REAL, WHOLE, TRUTH = "real", "whole", "truth"
KINDS = (TRUTH, WHOLE, REAL)
NUMBER = "number"


@dataclass(frozen=True)
class Element:
    """One node.  ``type``: number or truth; ``value``: a name, a constant, a function name, or an operator."""

    kind: str  # const name call unary binary compare and or if
    type: str
    args: tuple[Element, ...] = ()
    value: Any = None


@dataclass(frozen=True)
class ElementFunction:
    """A function of numbers, and the C functions that compute it (runtime/src/kernels/element_functions.h).

    ``narrow``: for float, "" if float32 has none; ``wide``: for double; ``whole``: for int64_t, "" if whole numbers have
    none.
    """

    arity: int
    narrow: str
    wide: str
    whole: str = ""
    test: bool = False  # the result is a truth value
    exact: bool = False  # no rounding
    approximate: bool = False  # `narrow` is off by a few units in the last place
    limit: float | None = None  # `narrow` is for arguments with a smaller magnitude; others use `wide`


FUNCTIONS = {
    "abs": ElementFunction(1, "fabsf", "fabs", "whole_abs", exact=True),
    "asin": ElementFunction(1, "", "real_asin"),
    "atan": ElementFunction(1, "", "real_atan"),
    "ceil": ElementFunction(1, "ceilf", "ceil", exact=True),
    "cos": ElementFunction(1, "real_cosf", "real_cos", approximate=True, limit=2.0**28),
    "erfc": ElementFunction(1, "", "real_erfc"),
    "exp": ElementFunction(1, "real_expf", "real_exp", approximate=True),
    "expm1": ElementFunction(1, "real_expm1f", "real_expm1", approximate=True),
    "floor": ElementFunction(1, "floorf", "floor", exact=True),
    "fmod": ElementFunction(2, "fmodf", "fmod", "whole_fmod", exact=True),
    "gelu": ElementFunction(1, "real_geluf", "real_gelu", approximate=True),
    "isinf": ElementFunction(1, "real_isinff", "real_isinf", test=True, exact=True),
    "isnan": ElementFunction(1, "real_isnanf", "real_isnan", test=True, exact=True),
    "log": ElementFunction(1, "", "real_log"),
    "log1p": ElementFunction(1, "", "real_log1p"),
    "maximum": ElementFunction(2, "real_maximumf", "real_maximum", "whole_maximum", exact=True),
    "minimum": ElementFunction(2, "real_minimumf", "real_minimum", "whole_minimum", exact=True),
    "quotient": ElementFunction(2, "", "", "whole_quotient"),
    "round": ElementFunction(1, "rintf", "rint", exact=True),
    "sign": ElementFunction(1, "real_signf", "real_sign", "whole_sign", exact=True),
    "sin": ElementFunction(1, "real_sinf", "real_sin", approximate=True, limit=2.0**28),
    "sqrt": ElementFunction(1, "sqrtf", "sqrt"),
    "tanh": ElementFunction(1, "real_tanhf", "real_tanh", approximate=True),
}
ARITHMETIC = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
}  # fmt: skip
COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def parse_element(text: str, inputs: Collection[str], params: Collection[str], kind: str) -> Element:
    """Parses ``text`` into a typed node for inputs of ``kind``.  Raises ExpressionError."""
    return _Checker(text.strip(), inputs, params, kind).visit(tree_of(text))


class _Checker:
    def __init__(self, text: str, inputs: Collection[str], params: Collection[str], kind: str) -> None:
        self.text, self.inputs, self.params, self.kind = text, inputs, params, kind

    def fail(self, message: str, at: ast.expr) -> NoReturn:
        raise ExpressionError(message, self.text, at.col_offset)

    def visit(self, tree: ast.expr) -> Element:
        match tree:
            case ast.Constant(value=bool()) | ast.Constant(value=str()) | ast.Constant(value=None):
                self.fail("a constant is a number", tree)
            case ast.Constant(value=float() as value) if self.kind != REAL:
                self.fail(f"{value} is no whole number", tree)
            case ast.Constant(value=int() | float() as value):
                return Element("const", NUMBER, value=value)
            case ast.Name(id=name):
                return self.name(name, tree)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.call(name, args, tree)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Element("unary", TRUTH, (self.of(TRUTH, operand),), "not")
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Element("unary", NUMBER, (self.of(NUMBER, operand),), "-")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in ARITHMETIC:
                return self.arithmetic(ARITHMETIC[type(op)], left, right, tree)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return self.comparison(COMPARISONS[type(op)], left, right)
            case ast.BoolOp(op=op, values=values):
                word = "and" if isinstance(op, ast.And) else "or"
                return Element(word, TRUTH, tuple(self.of(TRUTH, v) for v in values))
            case ast.IfExp(body=body, test=test, orelse=other):
                then = self.visit(body)
                return Element("if", then.type, (then, self.of(TRUTH, test), self.of(then.type, other)))
            case _:
                self.fail(f"{type(tree).__name__} is not in the language of elements", tree)

    def of(self, type_: str, tree: ast.expr) -> Element:
        node = self.visit(tree)
        if node.type != type_:
            self.fail(f"expected a {type_}{' value' if type_ == TRUTH else ''}, got a {node.type}", tree)
        return node

    def name(self, name: str, tree: ast.expr) -> Element:
        if name in self.inputs:
            return Element("name", TRUTH if self.kind == TRUTH else NUMBER, value=name)
        if name not in self.params:
            hint = did_you_mean(name, [*self.inputs, *self.params])
            self.fail(f"'{name}' is no input and no scalar parameter{hint}", tree)
        return Element("name", NUMBER, value=name)

    def call(self, name: str, args: list[ast.expr], tree: ast.expr) -> Element:
        function = FUNCTIONS.get(name)
        if function is None:
            self.fail(f"there is no function '{name}'{did_you_mean(name, FUNCTIONS)}", tree)
        if len(args) != function.arity:
            self.fail(f"{name} takes {function.arity} arguments, not {len(args)}", tree)
        if not (function.wide if self.kind == REAL else function.whole):
            self.fail(f"{name} has no meaning for {self.kind} numbers; give it a 'real' form", tree)
        numbers = tuple(self.of(NUMBER, a) for a in args)
        return Element("call", TRUTH if function.test else NUMBER, numbers, name)

    def arithmetic(self, operator: str, left: ast.expr, right: ast.expr, tree: ast.expr) -> Element:
        if operator == "/" and self.kind == WHOLE:
            self.fail("whole numbers have //, and quotient, which cuts towards zero", tree)
        return Element("binary", NUMBER, (self.of(NUMBER, left), self.of(NUMBER, right)), operator)

    def comparison(self, operator: str, left: ast.expr, right: ast.expr) -> Element:
        first = self.visit(left)
        return Element("compare", TRUTH, (first, self.of(first.type, right)), operator)


def is_wide(node: Element) -> bool:
    """True if real numbers are computed in double: float32 lacks a function, or would round more than once."""
    return _lacks(node) or (_roundings(node) > 1 and not is_approximate(node))


def is_approximate(node: Element) -> bool:
    """True if it contains a function that is approximated in float32; computing in double avoids that."""
    own = node.kind == "call" and FUNCTIONS[node.value].approximate
    return own or any(is_approximate(a) for a in node.args)


def limits(node: Element) -> dict[str, float]:
    """Maps inputs and parameters to the magnitude from which the expression is computed in double."""
    found: dict[str, float] = {}
    for a in node.args:
        for name, limit in limits(a).items():
            found[name] = min(limit, found.get(name, limit))
    own = FUNCTIONS[node.value].limit if node.kind == "call" else None
    if own is not None and node.args[0].kind == "name":
        name = node.args[0].value
        found[name] = min(own, found.get(name, own))
    return found


def _lacks(node: Element) -> bool:
    lacks = (node.kind == "call" and _is_double(node)) or node.value == "**"
    return lacks or any(_lacks(a) for a in node.args)


def _is_double(call: Element) -> bool:
    """True if float32 lacks the function; one with a limit needs a name as its argument, whose size can be checked."""
    function = FUNCTIONS[call.value]
    return not function.narrow or (function.limit is not None and call.args[0].kind != "name")


def _roundings(node: Element) -> int:
    own = node.kind == "binary" or (node.kind == "call" and not FUNCTIONS[node.value].exact)
    return int(own) + sum(_roundings(a) for a in node.args)
