"""Parses text into typed nodes: a whitelist over Python's expression syntax that checks names and types.

Nothing here evaluates text.  Every error shows the place (text and caret) and, for a misspelled name, the
nearest one.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn

from opdb.core.dtypes import BY_SHORT
from opdb.core.guess import did_you_mean
from opdb.spec.lang.functions import ATTRIBUTES, ENCODING_NAMES, FUNCTIONS, TENSOR_TYPES, Function
from opdb.spec.lang.nodes import (
    BOOL,
    DTYPE,
    ENCODING,
    FLOAT,
    FLOATS,
    INT,
    INT64,
    INTS,
    ROWS,
    STR,
    TENSOR,
    TENSOR_TYPE,
    TENSORS,
    Loop,
    Name,
    Node,
    Range,
    Scope,
    is_enum,
)

MAX_LENGTH, MAX_NODES, MAX_DEPTH = 500, 200, 30
MAX_LEVELS = 60  # nesting depth of operators
MAX_LIST = 64  # OPDB_MAX_LIST
SHOWN = 120  # characters of a long text in messages


#: Nodes of ``ast`` that are not parts of an expression.
NO_PARTS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


#: Nodes of ``ast`` that the rule language lacks, in words.
WORDS = {
    "Dict": "a dict",
    "DictComp": "a dict",
    "GeneratorExp": "a comprehension outside all, any, sum, min and max",
    "JoinedStr": "an f-string",
    "Lambda": "'lambda'",
    "NamedExpr": "':='",
    "Set": "a set outside 'in'",
    "SetComp": "a set",
    "Starred": "'*'",
    "Tuple": "a tuple outside 'in'",
    "Yield": "'yield'",
}


class ExpressionError(Exception):
    """An expression that is not in the language.  ``column`` counts from 0 within the text."""

    def __init__(self, message: str, text: str, column: int = 0) -> None:
        self.message, self.text, self.column = message, text, column
        caret = f"\n    {' ' * column}^" if column < SHOWN else ""
        super().__init__(f"{message}\n    {self.shown}{caret}")

    @property
    def shown(self) -> str:
        """The text, truncated if it is long."""
        return self.text if len(self.text) <= SHOWN else self.text[: SHOWN - 3] + "..."


def parse(text: str, scope: Scope, want: str | tuple[str, ...]) -> Node:
    """Parses ``text`` into a typed node; its type must be (one of) ``want``."""
    tree = tree_of(text)
    text = text.strip()
    wanted = (want,) if isinstance(want, str) else want
    checker = _Checker(text, scope, wanted == (ROWS,))
    node = checker.visit(tree)
    if node.type not in wanted:
        if node.type == INT and FLOAT in wanted and node.kind == "const":
            return _as_float(node)
        checker.fail(f"expected {' or '.join(wanted)}, got {node.type}", tree)
    return node


@lru_cache(maxsize=20_000)
def tree_of(text: str) -> ast.expr:
    """The syntax tree of ``text`` without surrounding space, within the limits; cached, so read-only.

    Most texts occur several times.  Raises ExpressionError.
    """
    _limits(text)
    text = text.strip()
    if not text:
        raise ExpressionError("an expression is missing", text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        detail = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
        column = max((getattr(error, "offset", None) or 1) - 1, 0)
        raise ExpressionError(f"cannot parse: {detail}", text, column) from None
    _tree_limits(tree, text)
    return tree


def _limits(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"an expression has at most {MAX_LENGTH} characters, this one {len(text)}", text
        )
    for column, char in enumerate(text):
        if not (char.isascii() and char.isprintable()):
            place = f"{ascii(char)[1:-1]} at position {column + 1}"
            raise ExpressionError(
                f"an expression is one line of printable ASCII characters, not {place}", ascii(text)[1:-1]
            )
    depth = 0
    for column, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth > MAX_DEPTH:
            raise ExpressionError(f"more than {MAX_DEPTH} nested brackets", text, column)


def _tree_limits(tree: ast.expr, text: str) -> None:
    """Limits the number of parts and their nesting before anything recurses over them."""
    level: list[ast.AST] = [tree]
    parts = depth = 0
    while level:
        parts, depth = parts + len(level), depth + 1
        level = [child for n in level for child in ast.iter_child_nodes(n) if not isinstance(child, NO_PARTS)]
    if parts > MAX_NODES:
        raise ExpressionError(
            f"an expression has at most {MAX_NODES} parts, this one {parts}; use 'let' to name some", text
        )
    if depth > MAX_LEVELS:
        raise ExpressionError(
            f"an expression has at most {MAX_LEVELS} levels, this one {depth}; use 'let' to name some", text
        )


def _as_float(node: Node) -> Node:
    return Node("const", FLOAT, value=float(node.value), column=node.column)


def _fits(low: int, high: int) -> tuple[Range, bool]:
    """The range clipped to 64 bits (then extended to contain 0), and True if clipping was needed."""
    if low < INT64[0] or high > INT64[1]:
        return (min(max(low, INT64[0]), 0), max(min(high, INT64[1]), 0)), True
    return (low, high), False


def _or_zero(range_: Range | None) -> Range | None:
    """``range_`` extended to contain 0, which the C code uses if there is no value."""
    return _union(range_, (0, 0))


class _Checker:
    def __init__(self, text: str, scope: Scope, rows: bool) -> None:
        self.text, self.scope, self.rows = text, scope, rows
        self.loops: dict[str, Name] = {}

    def fail(self, message: str, node: ast.AST) -> NoReturn:
        raise ExpressionError(message, self.text, getattr(node, "col_offset", 0))

    def visit(self, n: ast.expr) -> Node:
        method: Callable[[ast.expr], Node] | None = getattr(self, "_" + type(n).__name__.lower(), None)
        if method is None:
            kind = type(n).__name__
            self.fail(f"{WORDS.get(kind, kind)} is not part of the rule language", n)
        return method(n)

    def want(self, n: ast.expr, *types: str) -> Node:
        node = self.visit(n)
        if node.type in types:
            return node
        if FLOAT in types and node.type == INT and node.kind == "const":
            return _as_float(node)
        self.fail(f"expected {' or '.join(types)}, got {node.type}", n)

    # -- leaves

    def _constant(self, n: ast.Constant) -> Node:
        value = n.value
        if isinstance(value, bool):
            return Node("const", BOOL, value=value, column=n.col_offset)
        if isinstance(value, int):
            if not INT64[0] <= value <= INT64[1]:
                self.fail("an integer must fit 64 bits", n)
            return Node("const", INT, value=value, range=(value, value), column=n.col_offset)
        if isinstance(value, float):
            if value in (float("inf"), float("-inf")):
                self.fail("a number must be finite", n)
            return Node("const", FLOAT, value=value, column=n.col_offset)
        if isinstance(value, str) and self.scope.torch:
            if not value.isascii() or not value.isprintable():
                self.fail("a string has printable ASCII characters only", n)
            return Node("const", STR, value=value, column=n.col_offset)
        self.fail(f"a literal of type {type(value).__name__} is not part of the rule language", n)

    def _name(self, n: ast.Name) -> Node:
        known = self.loops.get(n.id) or self.scope.names.get(n.id)
        if known is not None:
            return Node("name", known.type, value=n.id, range=known.range, column=n.col_offset)
        if n.id in self.scope.enums:
            return Node("const", f"enum:{self.scope.enums[n.id][0]}", value=n.id, column=n.col_offset)
        if n.id in BY_SHORT:
            return Node("const", DTYPE, value=n.id, column=n.col_offset)
        if n.id in ENCODING_NAMES:
            return Node("const", ENCODING, value=n.id, column=n.col_offset)
        if n.id in TENSOR_TYPES:
            return Node("const", TENSOR_TYPE, value=n.id, column=n.col_offset)
        if n.id in ("true", "false"):
            return Node("const", BOOL, value=n.id == "true", column=n.col_offset)
        words = (*BY_SHORT, *ENCODING_NAMES, *TENSOR_TYPES)
        known_names = [*self.loops, *self.scope.names, *self.scope.enums, *words]
        self.fail(f"unknown name '{n.id}'" + _hint(n.id, known_names), n)

    def _attribute(self, n: ast.Attribute) -> Node:
        base = self.visit(n.value)
        if base.type != TENSOR or n.attr not in ATTRIBUTES:
            hint = _hint(n.attr, list(ATTRIBUTES)) if base.type == TENSOR else ""
            self.fail(f"{base.type} has no attribute '{n.attr}'{hint}", n)
        type_, range_, _ = ATTRIBUTES[n.attr]
        return Node("attr", type_, (base,), n.attr, range=range_, column=n.col_offset)

    def _subscript(self, n: ast.Subscript) -> Node:
        base = self.want(n.value, INTS, ROWS, TENSORS, FLOATS)
        if isinstance(n.slice, ast.Slice):
            if base.type != INTS or n.slice.step is not None:
                self.fail("a slice is taken of a list of integers, without a step", n)
            bounds = [b for b in (n.slice.lower, n.slice.upper) if b is not None]
            given = (n.slice.lower is not None, n.slice.upper is not None)
            args = (base, *(self.want(b, INT) for b in bounds))
            return Node("slice", INTS, args, given, range=base.range, column=n.col_offset)
        index = self.want(n.slice, INT)
        result = {INTS: INT, ROWS: INTS, TENSORS: TENSOR, FLOATS: FLOAT}[base.type]
        return Node(
            "index", result, (base, index), range=_or_zero(base.range), checked=True, column=n.col_offset
        )

    # -- operators

    def _unaryop(self, n: ast.UnaryOp) -> Node:
        if isinstance(n.op, ast.Not):
            return Node("not", BOOL, (self.want(n.operand, BOOL),), column=n.col_offset)
        if not isinstance(n.op, ast.USub):
            self.fail("only 'not' and '-' may stand before an expression", n)
        if (
            isinstance(n.operand, ast.Constant)
            and type(n.operand.value) is int
            and -n.operand.value == INT64[0]
        ):
            return Node("const", INT, value=INT64[0], range=(INT64[0], INT64[0]), column=n.col_offset)
        operand = self.want(n.operand, INT, FLOAT)
        if operand.kind == "const" and operand.value != INT64[0]:
            value = -operand.value
            return Node("const", operand.type, value=value, column=n.col_offset,
                        range=(value, value) if operand.type == INT else None)  # fmt: skip
        if operand.type == FLOAT:
            return Node("neg", FLOAT, (operand,), column=n.col_offset)
        low, high = operand.range or INT64
        range_, checked = _fits(-high, -low)
        return Node("neg", INT, (operand,), range=range_, checked=checked, column=n.col_offset)

    def _binop(self, n: ast.BinOp) -> Node:
        ops = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Div: "/"}
        op = ops.get(type(n.op))
        if op is None:
            self.fail("only + - * // % and, between floats, / are part of the rule language", n)
        left, right = self.want(n.left, INT, FLOAT), self.want(n.right, INT, FLOAT)
        if FLOAT in (left.type, right.type):
            left, right = (_as_float(x) if x.kind == "const" else x for x in (left, right))
            if left.type != right.type or op in ("//", "%"):
                self.fail(f"'{op}' cannot join {left.type} and {right.type}", n)
            return Node("arith", FLOAT, (left, right), op, checked=op == "/", column=n.col_offset)
        if op == "/":
            self.fail("'/' is for floats; integers take // (floor division)", n)
        range_, checked = _arith_range(op, left.range or INT64, right.range or INT64)
        return Node("arith", INT, (left, right), op, range=range_, checked=checked, column=n.col_offset)

    def _boolop(self, n: ast.BoolOp) -> Node:
        kind = "and" if isinstance(n.op, ast.And) else "or"
        return Node(kind, BOOL, tuple(self.want(v, BOOL) for v in n.values), column=n.col_offset)

    def _compare(self, n: ast.Compare) -> Node:
        if isinstance(n.ops[0], (ast.In, ast.NotIn)):
            return self._membership(n)
        names = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        terms = [self.visit(n.left), *(self.visit(c) for c in n.comparators)]
        if any(t.type == FLOAT for t in terms):
            terms = [_as_float(t) if t.kind == "const" and t.type == INT else t for t in terms]
        ops = []
        for left, op, right in zip(terms, n.ops, terms[1:], strict=False):
            name = names.get(type(op))
            if name is None:
                if isinstance(op, (ast.In, ast.NotIn)):
                    self.fail("'in' cannot be chained", n)
                self.fail("'is' is not part of the rule language; write ==", n)
            ordered = left.type == right.type and left.type in (INT, FLOAT)
            equal = left.type == right.type and left.type not in (TENSOR, TENSORS, ROWS)
            if left.type == INTS and len(n.ops) > 1:
                self.fail("comparisons of lists cannot be chained", n)
            if not (ordered or (equal and name in ("==", "!="))):
                self.fail(f"cannot compare {left.type} {name} {right.type}", n)
            ops.append(name)
        return Node("compare", BOOL, tuple(terms), tuple(ops), column=n.col_offset)

    def _membership(self, n: ast.Compare) -> Node:
        if len(n.ops) != 1:
            self.fail("'in' cannot be chained", n)
        right = n.comparators[0]
        negated = isinstance(n.ops[0], ast.NotIn)
        if isinstance(right, (ast.Tuple, ast.Set)):
            left = self.visit(n.left)
            if left.type not in (INT, DTYPE, ENCODING, TENSOR_TYPE, STR) and not is_enum(left.type):
                self.fail(f"{left.type} cannot be looked up with 'in'", n)
            if not right.elts:
                self.fail("'in' needs at least one choice", right)
            return Node(
                "in",
                BOOL,
                (left, *(self.want(e, left.type) for e in right.elts)),
                negated,
                column=n.col_offset,
            )
        left, source = self.want(n.left, INT), self.want(right, INTS)
        found = Node("call", BOOL, (source, left), "contains", column=n.col_offset)
        return Node("not", BOOL, (found,), column=n.col_offset) if negated else found

    def _ifexp(self, n: ast.IfExp) -> Node:
        then, test, other = self.visit(n.body), self.want(n.test, BOOL), self.visit(n.orelse)
        if FLOAT in (then.type, other.type):
            then, other = (_as_float(x) if x.kind == "const" and x.type == INT else x for x in (then, other))
        if then.type != other.type:
            self.fail(f"both sides of 'if' need one type, not {then.type} and {other.type}", n)
        range_ = _union(then.range, other.range)
        return Node("if", then.type, (then, test, other), range=range_, column=n.col_offset)

    def _list(self, n: ast.List) -> Node:
        if len(n.elts) > MAX_LIST:
            self.fail(f"a list has at most {MAX_LIST} values, this one {len(n.elts)}", n)
        if n.elts and isinstance(n.elts[0], ast.List):
            if not (self.scope.torch or self.rows):
                self.fail("a list of lists is the value of a parameter only", n)
            rows = tuple(self.want(e, INTS) for e in n.elts)
            self._plain_rows(n, rows)
            return Node("list", ROWS, rows, column=n.col_offset)
        elements = tuple(self.want(e, INT) for e in n.elts)
        range_: Range | None = (0, 0)
        if elements:
            range_ = elements[0].range
            for e in elements[1:]:
                range_ = _union(range_, e.range)
        return Node("list", INTS, elements, range=range_, column=n.col_offset)

    def _plain_rows(self, n: ast.List, rows: tuple[Node, ...]) -> None:
        """Checks that a parameter's default is a table of numbers; in a mapping the rows may be computed."""
        if self.scope.torch:
            return
        if any(a.kind != "const" for row in rows for a in row.args) or any(r.kind != "list" for r in rows):
            self.fail("a default that is a list of lists holds numbers only", n)
        if len({len(row.args) for row in rows}) != 1:
            self.fail("the rows of a list of lists have one length", n)

    # -- calls and comprehensions

    def _call(self, n: ast.Call) -> Node:
        if not isinstance(n.func, ast.Name) or n.keywords:
            self.fail("only the named functions may be called, with positional arguments", n)
        name = n.func.id
        if len(n.args) == 1 and isinstance(n.args[0], ast.GeneratorExp):
            if name not in ("all", "any", "sum", "min", "max"):
                self.fail(f"'{name}' does not take a comprehension; all, any, sum, min and max do", n)
            return self._comprehension(name, n.args[0])
        if name == "sum":
            name = "sum_of"
        row = FUNCTIONS.get(name)
        if row is None or (row.torch and not self.scope.torch):
            known = [f.name for f in FUNCTIONS.values() if self.scope.torch or not f.torch]
            self.fail(f"unknown function '{name}'" + _hint(name, [*known, "all", "any", "sum"]), n)
        return self._apply(row, n)

    def _apply(self, row: Function, n: ast.Call) -> Node:
        low, high = len(row.params) - row.optional, len(row.params)
        if not low <= len(n.args) <= high:
            count = str(low) if low == high else f"{low} or {high}"
            self.fail(f"'{row.name}' takes {count} argument{'s' if high != 1 else ''}, got {len(n.args)}", n)
        if row.name == "present":
            return self._present(n)
        args = tuple(self.want(a, *types) for a, types in zip(n.args, row.params, strict=False))
        if row.name in ("min", "max") and args[0].type != args[1].type:
            args = tuple(_as_float(a) if a.kind == "const" else a for a in args)
            if args[0].type != args[1].type:
                self.fail(f"'{row.name}' needs two integers or two floats", n)
        type_ = args[0].type if row.name in ("min", "max") else row.result
        return Node(
            "call",
            type_,
            args,
            row.name,
            range=_call_range(row, args),
            checked=row.partial,
            column=n.col_offset,
        )

    def _present(self, n: ast.Call) -> Node:
        arg = n.args[0]
        known = self.scope.names.get(arg.id) if isinstance(arg, ast.Name) else None
        if known is None or not isinstance(arg, ast.Name):
            self.fail("'present' takes the name of a tensor or parameter", n)
        if not known.optional:
            self.fail(f"'{arg.id}' is always present", n)
        if known.type == TENSORS:
            self.fail(f"'{arg.id}' is a list, empty where none is given; write len({arg.id}) > 0", n)
        return Node("call", BOOL, (Node("name", known.type, value=arg.id, column=arg.col_offset),), "present",
                    column=n.col_offset)  # fmt: skip

    def _listcomp(self, n: ast.ListComp) -> Node:
        return self._comprehension("list", n)

    def _comprehension(self, function: str, n: ast.GeneratorExp | ast.ListComp) -> Node:
        outer, loops = dict(self.loops), []
        for g in n.generators:
            source = self.want(g.iter, INTS, TENSORS)
            if g.is_async or not isinstance(g.target, ast.Name):
                self.fail("a loop variable is one plain name", g.target)
            var = g.target.id
            if var in self.loops or var in self.scope.names or var in self.scope.enums or not var.isascii():
                self.fail(f"'{var}' already has a meaning; choose a new name for the loop variable", g.target)
            self.loops[var] = Name(INT, source.range) if source.type == INTS else Name(TENSOR)
            loops.append(Loop(var, source, tuple(self.want(c, BOOL) for c in g.ifs)))
        body = self.want(n.elt, BOOL if function in ("all", "any") else INT)
        self.loops = outer
        if function == "list" and len(loops) != 1:
            self.fail("a list comprehension has one 'for'", n)
        type_ = {"all": BOOL, "any": BOOL, "list": INTS}.get(function, INT)
        ranges = {"list": body.range, "min": _or_zero(body.range), "max": _or_zero(body.range), "sum": INT64}
        range_ = ranges.get(function)
        checked = function not in ("all", "any")
        return Node(
            "comp",
            type_,
            (body,),
            (function, tuple(loops)),
            range=range_,
            checked=checked,
            column=n.col_offset,
        )


def _hint(name: str, known: list[str]) -> str:
    return did_you_mean(name, known)


def _union(a: Range | None, b: Range | None) -> Range | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _arith_range(op: str, a: Range, b: Range) -> tuple[Range, bool]:
    """The range of ``a op b``, and True if it can exceed 64 bits (division by zero is checked separately)."""
    if op == "+":
        return _fits(a[0] + b[0], a[1] + b[1])
    if op == "-":
        return _fits(a[0] - b[1], a[1] - b[0])
    if op == "*":
        corners = [x * y for x in a for y in b]
        return _fits(min(corners), max(corners))
    if op == "//":
        overflow = a[0] == INT64[0] and b[0] <= -1 <= b[1]
        bound = max(abs(a[0]), abs(a[1]))
        positive = a[0] >= 0 and b[0] >= 0
        return _fits(0 if positive else -bound, a[1] if positive else bound)[0], overflow
    bound = max(abs(b[0]), abs(b[1]))
    return _fits(0 if b[0] >= 0 else -bound, bound)[0], a[0] == INT64[0] and b[0] <= -1 <= b[1]


def _call_range(row: Function, args: tuple[Node, ...]) -> Range | None:
    if row.name == "len":
        return (0, 2**31 - 1)  # a parameter may hold more values than a rule can compute
    if row.name == "range":
        low = args[0].range or INT64
        high = args[-1].range or INT64
        return (0 if len(args) == 1 else low[0], max(high[1] - 1, 0 if len(args) == 1 else low[0]))
    if row.name in ("min", "max", "broadcast", "cat") and args[0].type in (INT, INTS):
        return _union(args[0].range, args[1].range)
    if row.name == "bit":
        return (0, 1)
    if row.name in ("gather", "expand"):
        return args[0].range
    if row.name == "replace":
        return _union(args[0].range, args[2].range)
    if row.name in ("reduced", "of_rank"):
        return _union(args[0].range, (1, 1))
    if row.name == "axes_of":
        return (0, MAX_LIST - 1)
    return INT64 if row.result in (INT, INTS) else None
