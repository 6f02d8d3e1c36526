"""The accepted expressions, and each refusal with its exact message, position and suggestion."""

from __future__ import annotations

import inspect
import sys
import warnings

import pytest
from expressions import SCOPE

from opdb.spec.lang.nodes import Name, Node, Scope, walk
from opdb.spec.lang.parse import MAX_DEPTH, MAX_LENGTH, MAX_LEVELS, MAX_NODES, ExpressionError, parse

TORCH = Scope(
    {"input": Name("tensor"), "dims": Name("ints"), "mode": Name("str"), "eps": Name("float")}, torch=True
)

#: text, the type that is wanted, the message, and the column of the caret (counted from 0).
REFUSALS = [
    # names, with the nearest one
    ("axs[0] > 1", "bool", "unknown name 'axs'; did you mean 'axes'?", 0),
    ("x.rank > bound[0]", "bool", "unknown name 'bound'; did you mean 'bounds'?", 9),
    ("zebra > 1", "bool", "unknown name 'zebra'", 0),
    ("x.rnk > 1", "bool", "tensor has no attribute 'rnk'; did you mean 'rank'?", 0),
    ("S.rank > 1", "bool", "ints has no attribute 'rank'", 0),
    ("uniqe(S)", "bool", "unknown function 'uniqe'; did you mean 'unique'?", 0),
    ("p and system(S)", "bool", "unknown function 'system'", 6),
    ("mode == MULTPLY", "bool", "unknown name 'MULTPLY'; did you mean 'MULTIPLY'?", 8),
    ("x.dtype == fp16", "bool", "unknown name 'fp16'; did you mean 'f16'?", 11),
    ("x.encoding == SCALE_OFSET", "bool", "unknown name 'SCALE_OFSET'; did you mean 'SCALE_OFFSET'?", 14),
    # constructs that Python has but the language lacks
    ("__import__('os').system('x')", "bool", "only the named functions may be called, with positional arguments", 0),
    ("x.__class__ == x", "bool", "tensor has no attribute '__class__'", 0),
    ("().__class__.__bases__", "bool", "a tuple outside 'in' is not part of the rule language", 0),
    ("lambda: p", "bool", "'lambda' is not part of the rule language", 0),
    ("(lambda: p)()", "bool", "only the named functions may be called, with positional arguments", 0),
    ("(k := 1) > 0", "bool", "':=' is not part of the rule language", 1),
    ("f'{n}' == 'a'", "bool", "an f-string is not part of the rule language", 0),
    ("n ** 2 > 1", "bool", "only + - * // % and, between floats, / are part of the rule language", 0),
    ("n << 2 > 1", "bool", "only + - * // % and, between floats, / are part of the rule language", 0),
    ("n & 1 == 1", "bool", "only + - * // % and, between floats, / are part of the rule language", 0),
    ("~n == 1", "bool", "only 'not' and '-' may stand before an expression", 0),
    ("+n == 1", "bool", "only 'not' and '-' may stand before an expression", 0),
    ("n is 1", "bool", "'is' is not part of the rule language; write ==", 0),
    ("{1: 2}[1] == 2", "bool", "a dict is not part of the rule language", 0),
    ("(n, m) == 1", "bool", "a tuple outside 'in' is not part of the rule language", 0),
    ("[*S] == S", "bool", "'*' is not part of the rule language", 1),
    ("prod(*S) == 1", "bool", "'*' is not part of the rule language", 5),
    ("prod(x=S) == 1", "bool", "only the named functions may be called, with positional arguments", 0),
    ("x.shape.append(1)", "bool", "only the named functions may be called, with positional arguments", 0),
    ("S[::2] == S", "bool", "a slice is taken of a list of integers, without a step", 0),
    ("'a' == 'b'", "bool", "a literal of type str is not part of the rule language", 0),
    ("b'a' == n", "bool", "a literal of type bytes is not part of the rule language", 0),
    ("1j == n", "bool", "a literal of type complex is not part of the rule language", 0),
    ("... == n", "bool", "a literal of type ellipsis is not part of the rule language", 0),
    ("None == n", "bool", "a literal of type NoneType is not part of the rule language", 0),
    ("(e for e in S)", "bool", "a comprehension outside all, any, sum, min and max is not part of the rule language", 0),
    ("{e for e in S}", "bool", "a set is not part of the rule language", 0),
    ("", "bool", "an expression is missing", 0),
    ("   ", "bool", "an expression is missing", 0),
    # types
    ("x.rank", "bool", "expected bool, got int", 0),
    ("x", "ints", "expected ints, got tensor", 0),
    ("n + p", "int", "expected int or float, got bool", 4),
    ("not n", "bool", "expected bool, got int", 4),
    ("p and n", "bool", "expected bool, got int", 6),
    ("n / 2 == 1", "bool", "'/' is for floats; integers take // (floor division)", 0),
    ("n + f > 1.0", "bool", "'+' cannot join int and float", 0),
    ("f // 2.0 > 1.0", "bool", "'//' cannot join float and float", 0),
    ("x.rank == x.dtype", "bool", "cannot compare int == dtype", 0),
    ("x.dtype < f32", "bool", "cannot compare dtype < dtype", 0),
    ("x == w", "bool", "cannot compare tensor == tensor", 0),
    ("R == R", "bool", "cannot compare rows == rows", 0),
    ("S == L == S", "bool", "comparisons of lists cannot be chained", 0),
    ("S < L", "bool", "cannot compare ints < ints", 0),
    ("n > 1.5", "bool", "cannot compare int > float", 0),
    ("mode == f32", "bool", "cannot compare enum:mode == dtype", 0),
    ("n in 5", "bool", "expected ints, got int", 5),
    ("S in (L,)", "bool", "ints cannot be looked up with 'in'", 0),
    ("n in ()", "bool", "'in' needs at least one choice", 5),
    ("n in (1, f32)", "bool", "expected int, got dtype", 9),
    ("n in S in S", "bool", "'in' cannot be chained", 0),
    ("n < m in S", "bool", "'in' cannot be chained", 0),
    ("n if p else S", "int", "both sides of 'if' need one type, not int and ints", 0),
    ("n if m else 1", "int", "expected bool, got int", 5),
    ("[1, f32]", "ints", "expected int, got dtype", 4),
    ("[1, [2]]", "ints", "expected int, got ints", 4),
    ("[[1], [2]][0]", "ints", "a list of lists is the value of a parameter only", 0),
    ("n[0]", "int", "expected ints or rows or tensors or floats, got int", 0),
    ("S[f]", "int", "expected int, got float", 2),
    ("R[0:1]", "rows", "a slice is taken of a list of integers, without a step", 0),
    # calls
    ("len()", "int", "'len' takes 1 argument, got 0", 0),
    ("range(1, 2, 3)", "ints", "'range' takes 1 or 2 arguments, got 3", 0),
    ("min(n, f)", "int", "'min' needs two integers or two floats", 0),
    ("present(x)", "bool", "'x' is always present", 0),
    ("present(x.rank)", "bool", "'present' takes the name of a tensor or parameter", 0),
    ("present(nothing)", "bool", "'present' takes the name of a tensor or parameter", 0),
    ("ones(S)", "tensor", "unknown function 'ones'", 0),
    ("prod(e for e in S)", "int", "'prod' does not take a comprehension; all, any, sum, min and max do", 0),
    # comprehensions
    ("all(x > 0 for x in S)", "bool", "'x' already has a meaning; choose a new name for the loop variable", 14),
    ("all(e > 0 for e in S for e in L)", "bool", "'e' already has a meaning; choose a new name for the loop variable", 25),
    ("all(e > 0 for e, g in S)", "bool", "a loop variable is one plain name", 14),
    ("all(e > 0 for e in n)", "bool", "expected ints or tensors, got int", 19),
    ("all(e for e in S)", "bool", "expected bool, got int", 4),
    ("[e for e in S for v in L]", "ints", "a list comprehension has one 'for'", 0),
    ("all(e > 0 for e in S) and e > 1", "bool", "unknown name 'e'", 26),
    # numbers and characters
    ("9223372036854775808 > n", "bool", "an integer must fit 64 bits", 0),
    ("-9223372036854775809 > n", "bool", "an integer must fit 64 bits", 1),
    ("1e999 > f", "bool", "a number must be finite", 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "want", "message", "column"), REFUSALS, ids=[r[0] for r in REFUSALS])
def test_invalid_expressions_are_refused(text: str, want: str, message: str, column: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text, SCOPE, want)
    error = caught.value
    assert (error.message, error.column) == (message, column)
    assert str(error) == f"{message}\n    {text.strip()}\n    {' ' * column}^"


#: Python's own parser reports these, with messages that depend on its version.
NO_EXPRESSIONS = ("p; import os", "import os", "n = 1", "(n > 1", "n > 1)", "# nothing", "p if q", "007 == n", "n >", "a b",
                  "p and", "for e in S", "$n", "n?", "x..rank", "return p", "def f(): pass", "'", "S[", "await p q")  # fmt: skip


@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_python_syntax_errors_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"^cannot parse: [^\n]+\n    ") as caught:
        parse(text, SCOPE, "bool")
    assert 0 <= caught.value.column <= len(text)


def test_there_are_enough_refusals() -> None:
    assert len(REFUSALS) >= 80
    assert len({message for _, _, message, _ in REFUSALS}) >= 60


def refused(text: str, want: str = "bool", scope: Scope = SCOPE) -> str:
    with pytest.raises(ExpressionError) as caught:
        parse(text, scope, want)
    return caught.value.message


# -- limits: each refused before anything recurses or computes


@pytest.mark.parametrize(("text", "message"), [
    ("(" * 10_000 + "n" + ")" * 10_000, "an expression has at most 500 characters, this one 20001"),
    ("n" * 501, "an expression has at most 500 characters, this one 501"),
    ("(" * 31 + "p" + ")" * 31, "more than 30 nested brackets"),
    ("[" * 200 + "]" * 200, "more than 30 nested brackets"),
    ("not " * 60 + "p", "an expression has at most 60 levels, this one 61; use 'let' to name some"),
    ("-" * 90 + "n > 0", "an expression has at most 60 levels, this one 92; use 'let' to name some"),
    ("n+" * 100 + "n > 0", "an expression has at most 200 parts, this one 203; use 'let' to name some"),
    ("n in [" + ",".join("1" * 65) + "]", "a list has at most 64 values, this one 65"),
    ("9" * 480 + " > n", "an integer must fit 64 bits"),
    ("1e" + "9" * 400 + " > f", "a number must be finite"),
    ("ｘ.rank > 0", "an expression is one line of printable ASCII characters, not \\uff58 at position 1"),
    ("x.rank\u00a0> 0", "an expression is one line of printable ASCII characters, not \\xa0 at position 7"),
    ("p\0", "an expression is one line of printable ASCII characters, not \\x00 at position 2"),
    ("p\nq", "an expression is one line of printable ASCII characters, not \\n at position 2"),
    ("p\t", "an expression is one line of printable ASCII characters, not \\t at position 2"),
    ("\u202ep", "an expression is one line of printable ASCII characters, not \\u202e at position 1"),
    ("all(é > 0 for é in S)", "an expression is one line of printable ASCII characters, not \\xe9 at position 5"),
])  # fmt: skip
def test_expressions_beyond_the_limits_are_refused(text: str, message: str) -> None:
    assert refused(text) == message


def test_expressions_just_within_the_limits_are_accepted() -> None:
    assert (MAX_LENGTH, MAX_NODES, MAX_DEPTH, MAX_LEVELS) == (500, 200, 30, 60)
    parse("(" * 30 + "p" + ")" * 30, SCOPE, "bool")
    parse("not " * 59 + "p", SCOPE, "bool")
    parse("n" + " " * 497 + "+n", SCOPE, "int")
    parse("[" + ",".join("1" * 64) + "]", SCOPE, "ints")
    parse("+".join("n" * 40), SCOPE, "int")


def test_the_deepest_expression_fits_a_small_stack() -> None:
    before = sys.getrecursionlimit()
    frames = len(inspect.stack())
    sys.setrecursionlimit(frames + 350)
    try:
        node = parse("not " * 59 + "p", SCOPE, "bool")
        assert sum(1 for _ in walk(node)) == 60
    finally:
        sys.setrecursionlimit(before)


def test_a_long_text_is_shown_partially() -> None:
    with pytest.raises(ExpressionError, match="unknown name 'zz'") as caught:
        parse("n" + " " * 200 + "+ zz", SCOPE, "int")
    _, shown = str(caught.value).split("\n")  # no caret beyond the shown part
    assert len(shown) == 4 + 120 and shown.endswith("...")


def test_no_warning_is_printed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert refused("1if p else 2", "bool").startswith(
            ("cannot parse: invalid decimal literal", "expected bool")
        )
        assert refused("n is 1") == "'is' is not part of the rule language; write =="
        assert refused("'\\d' == mode", scope=TORCH) == "cannot parse: invalid escape sequence '\\d'"


# -- scopes


def test_known_names_depend_on_the_scope() -> None:
    inner = SCOPE.with_names({"arch": Name("int", (0, 99))})
    assert parse("arch >= 73", inner, "bool").kind == "compare"
    assert refused("arch >= 73") == "unknown name 'arch'"
    assert refused("'a' == mode", scope=SCOPE) == "a literal of type str is not part of the rule language"
    assert parse("'a' == mode", TORCH, "bool").args[0].value == "a"
    assert parse("[[1], [2]]", TORCH, "rows").type == "rows"
    assert parse("permute(input, dims)", TORCH, "tensor").type == "tensor"
    assert refused("mode == 'é'", scope=TORCH).startswith("an expression is one line of printable ASCII")


def test_a_default_may_be_a_table_of_numbers() -> None:
    assert parse("[[1, 2], [3, 4]]", SCOPE, "rows").type == "rows"
    assert refused("[[1, 2], [3]]", "rows") == "the rows of a list of lists have one length"
    assert refused("[[1, x.rank]]", "rows") == "a default that is a list of lists holds numbers only"
    assert refused("[[1], S]", "rows") == "a default that is a list of lists holds numbers only"
    assert refused("[[1]][0]", "ints") == "a list of lists is the value of a parameter only"


def test_names_win_over_constants() -> None:
    scope = Scope({"f32": Name("int")}, {"NONE": ("mode", 3)})
    assert parse("f32", scope, "int").kind == "name"
    assert parse("NONE", scope, "enum:mode") == Node("const", "enum:mode", value="NONE")
    assert parse("NONE", SCOPE, "encoding") == Node("const", "encoding", value="NONE")


def test_integers_become_floats_where_required() -> None:
    assert parse("f > 1", SCOPE, "bool").args[1] == Node("const", "float", value=1.0)
    assert parse("1", SCOPE, "float").value == 1.0
    assert parse("min(f, 2)", SCOPE, "float").args[1].type == "float"
    assert parse("1 if p else f", SCOPE, "float").args[0].type == "float"
    assert parse("f / 2", SCOPE, "float").type == "float"


# -- ranges, on which the emitters rely


@pytest.mark.parametrize(("text", "range_", "checked"), [
    ("d + 1", (1, 2**31), False),
    ("d * d", (0, (2**31 - 1) ** 2), False),
    ("d * d * d", (0, 2**63 - 1), True),
    ("n + 1", (-(2**63) + 1, 2**63 - 1), True),
    ("-d", (-(2**31) + 1, 0), False),
    ("-n", (-(2**63) + 1, 2**63 - 1), True),
    ("-9223372036854775808", (-(2**63), -(2**63)), False),
    ("m - d", (-9 - 2**31 + 1, 9), False),
    ("S[0] // 2", (0, 2**31 - 1), False),
    ("[3, 5][m]", (0, 5), True),  # 0 if there is no such element
    ("min(e for e in [3, 5])", (0, 5), True),
    ("len(S)", (0, 2**31 - 1), False),
    ("x.rank", (0, 16), False),
    ("max(d, 5)", (0, 2**31 - 1), False),
    ("d if p else m", (-9, 2**31 - 1), False),
    ("d % 7", (0, 7), False),
])  # fmt: skip
def test_expressions_have_ranges(text: str, range_: tuple[int, int], checked: bool) -> None:
    node = parse(text, SCOPE, "int")
    assert (node.range, node.checked) == (range_, checked)
