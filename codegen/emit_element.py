"""Typed nodes of element formulas -> C expressions over runtime/src/kernels/element_functions.h."""

from __future__ import annotations

from opdb.codegen.names import local
from opdb.spec.lang.element import FUNCTIONS, REAL, TRUTH, WHOLE, Element, is_wide

#: kind of numbers -> the C type of an element.
C_TYPES = {REAL: "float", WHOLE: "int64_t", TRUTH: "uint8_t"}


def computed_type(node: Element, kind: str) -> str:
    """The C type of the numbers in an expression."""
    return "double" if kind == REAL and is_wide(node) else C_TYPES[kind]


#: C's operators for real numbers; all others are functions.
IF, BITS, COMPARE, ADD, MULTIPLY, NEGATE, ATOM = range(7)
REAL_OPERATORS = {"+": ADD, "-": ADD, "*": MULTIPLY, "/": MULTIPLY}
WORDS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "modulo",
    "**": "power",
}


#: The local names of the generated functions.
OWN = frozenset({"in", "out", "n", "params", "i", "result"})


def named(name: str) -> str:
    """The C name of an input or a scalar parameter."""
    return f"{name}_" if name in OWN else local(name)


def element(node: Element, kind: str, wide: bool = False) -> str:
    """The C text of ``node`` for inputs of ``kind``; ``wide``: in double even if float would suffice."""
    return _Emitter(kind, wide or is_wide(node)).text(node)[0]


class _Emitter:
    """Emits texts with their binding strength; adds parentheses where C needs them or gcc would warn."""

    def __init__(self, kind: str, wide: bool) -> None:
        self.kind, self.wide = kind, wide

    def inside(self, node: Element, at_least: int) -> str:
        text, binds = self.text(node)
        return f"({text})" if binds < at_least else text

    def arguments(self, node: Element) -> str:
        return ", ".join(self.text(a)[0] for a in node.args)

    def text(self, node: Element) -> tuple[str, int]:
        match node.kind:
            case "const":
                return self.constant(node), ATOM
            case "name":
                return named(node.value), ATOM
            case "call":
                function = FUNCTIONS[node.value]
                real = function.wide if self.wide else function.narrow
                return f"{real if self.kind == REAL else function.whole}({self.arguments(node)})", ATOM
            case "binary":
                return self.binary(node)
            case "unary":
                return self.unary(node)
            case "compare":
                left, right = (self.inside(a, ADD) for a in node.args)
                return f"{left} {node.value} {right}", COMPARE
            case "and" | "or":
                sign = {"and": " & ", "or": " | "}[node.kind]
                return sign.join(self.inside(a, ATOM) for a in node.args), BITS
        then, test, other = node.args
        return f"{self.inside(test, COMPARE)} ? {self.inside(then, COMPARE)} : {self.inside(other, IF)}", IF

    def binary(self, node: Element) -> tuple[str, int]:
        if self.kind != REAL or node.value not in REAL_OPERATORS:
            suffix = "f" if self.kind == REAL and not self.wide else ""
            return f"{self.kind}_{WORDS[node.value]}{suffix}({self.arguments(node)})", ATOM
        binds = REAL_OPERATORS[node.value]
        left, right = self.inside(node.args[0], binds), self.inside(node.args[1], binds + 1)
        return f"{left} {node.value} {right}", binds

    def unary(self, node: Element) -> tuple[str, int]:
        (operand,) = node.args
        if node.value == "not":
            return f"!{self.inside(operand, ATOM)}", NEGATE
        if self.kind == REAL:
            return f"-{self.inside(operand, ATOM)}", NEGATE
        return f"whole_subtract(0, {self.text(operand)[0]})", ATOM

    def constant(self, node: Element) -> str:
        if self.kind == REAL:
            return f"{float(node.value)!r}{'' if self.wide else 'f'}"
        return f"INT64_C({node.value})" if node.value >= 2**31 else str(node.value)
