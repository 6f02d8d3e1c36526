"""The elementwise language: valid and invalid expressions for each kind of number, and the generated C."""

from __future__ import annotations

import pytest

from opdb.codegen.emit_element import element
from opdb.spec.lang.element import REAL, TRUTH, WHOLE, is_wide, limits, parse_element
from opdb.spec.lang.parse import ExpressionError

INPUTS, PARAMS = ("x", "y"), ("alpha", "low")


def c(text: str, kind: str = REAL) -> str:
    return element(parse_element(text, INPUTS, PARAMS, kind), kind)


@pytest.mark.parametrize(
    ("text", "kind", "written"),
    [
        ("x + y", REAL, "x + y"),
        ("x - (y - 1)", REAL, "x - (y - 1.0)"),  # two roundings: in double
        ("(x + y) * alpha", REAL, "(x + y) * alpha"),
        ("-x", REAL, "-x"),
        ("abs(x)", REAL, "fabsf(x)"),
        ("sqrt(x)", REAL, "sqrtf(x)"),
        ("1 / sqrt(x)", REAL, "1.0 / sqrt(x)"),
        ("exp(x)", REAL, "real_expf(x)"),
        ("sin(x)", REAL, "real_sinf(x)"),
        ("sin(x + y)", REAL, "real_sin(x + y)"),  # the size of a sum is not checked
        ("x ** y", REAL, "real_power(x, y)"),
        ("maximum(x, 0)", REAL, "real_maximumf(x, 0.0f)"),
        ("x if x > 0 else alpha * x", REAL, "x > 0.0f ? x : alpha * x"),
        ("x > 0 and y < 1 or x == y", REAL, "((x > 0.0f) & (y < 1.0f)) | (x == y)"),
        ("x % y", REAL, "real_modulof(x, y)"),
        ("x % y + alpha", REAL, "real_modulo(x, y) + alpha"),
        ("x + y", WHOLE, "whole_add(x, y)"),
        ("-x", WHOLE, "whole_subtract(0, x)"),
        ("quotient(x, y)", WHOLE, "whole_quotient(x, y)"),
        ("maximum(x, 4294967296)", WHOLE, "whole_maximum(x, INT64_C(4294967296))"),
        ("not x", TRUTH, "!x"),
        ("x and not y", TRUTH, "x & (!y)"),
    ],
)
def test_expressions_become_c(text: str, kind: str, written: str) -> None:
    assert c(text, kind) == written


@pytest.mark.parametrize(
    ("text", "wide"),
    [("x + y", False), ("abs(x) * y", False), ("x * y + 1", True), ("tanh(x)", False), ("log(x)", True),
     ("1 / (1 + exp(-x))", False), ("log1p(exp(x))", True), ("floor(x / y)", False),
     ("maximum(-x, 0)", False), ("x ** 2", True)],
)  # fmt: skip
def test_expressions_with_several_roundings_use_double(text: str, wide: bool) -> None:
    assert is_wide(parse_element(text, INPUTS, PARAMS, REAL)) is wide


@pytest.mark.parametrize(
    ("text", "names"),
    [("sin(x)", ["x"]), ("cos(x) * sin(alpha)", ["x", "alpha"]), ("exp(x)", []), ("x + y", [])],
)
def test_sin_and_cos_limit_their_arguments(text: str, names: list[str]) -> None:
    assert limits(parse_element(text, INPUTS, PARAMS, REAL)) == dict.fromkeys(names, 2.0**28)


@pytest.mark.parametrize(
    ("text", "kind", "column", "message"),
    [
        ("x + z", REAL, 4, "'z' is no input and no scalar parameter"),
        ("alpa * x", REAL, 0, "'alpa' is no input and no scalar parameter; did you mean 'alpha'?"),
        ("tan(x)", REAL, 0, "there is no function 'tan'; did you mean 'tanh'?"),
        ("exp(x, y)", REAL, 0, "exp takes 1 arguments, not 2"),
        ("exp(x)", WHOLE, 0, "exp has no meaning for whole numbers"),
        ("x / y", WHOLE, 0, "whole numbers have //"),
        ("x + 0.5", WHOLE, 4, "0.5 is no whole number"),
        ("x + y", TRUTH, 0, "expected a number, got a truth"),
        ("not x", REAL, 4, "expected a truth value, got a number"),
        ("x if y else 0", REAL, 5, "expected a truth value, got a number"),
        ("0 < x < 1", REAL, 0, "Compare is not in the language of elements"),
        ("'a'", REAL, 0, "a constant is a number"),
        ("x.real", REAL, 0, "Attribute is not in the language of elements"),
        ("x @ y", REAL, 0, "BinOp is not in the language of elements"),
        ("(x", REAL, 0, "cannot parse"),
        ("", REAL, 0, "an expression is missing"),
    ],
)
def test_invalid_expressions_are_rejected(text: str, kind: str, column: int, message: str) -> None:
    with pytest.raises(ExpressionError) as refused:
        parse_element(text, INPUTS, PARAMS, kind)
    assert refused.value.message.startswith(message)
    assert refused.value.column == column
