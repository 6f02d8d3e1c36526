"""numpy's version of ``each`` has every function and operator of the language, with Python's and C's meaning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from opdb.author.own_ops import elements
from opdb.spec.lang.element import FUNCTIONS, REAL, WHOLE, parse_element

pytestmark = pytest.mark.slow

X, Y = 0.75, -2.5


def value(text: str, kind: str = REAL, **values: float) -> float:
    given = {n: np.asarray(v) for n, v in values.items()}
    return elements.evaluate(parse_element(text, given, (), kind), kind, given).item()


def test_numpy_has_every_function_of_the_language() -> None:
    assert elements.FUNCTIONS.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x + y * 2 - 1", X + Y * 2 - 1),
        ("x / y", X / Y),
        ("y // x", Y // X),
        ("y % x", Y % X),
        ("x ** 3", X**3),
        ("-x if x > 0 else y", -X),
        ("x if not x > 0 and y < 0 or x == 0 else y", Y),
        ("gelu(x)", X * 0.5 * (1 + math.erf(X / math.sqrt(2)))),
        ("erfc(x) + tanh(x)", math.erfc(X) + math.tanh(X)),
        ("fmod(y, x)", math.fmod(Y, X)),
        ("round(y)", -2.0),
        ("maximum(x, y) + minimum(x, y)", X + Y),
        ("1 if isnan(x) else 0", 0.0),
    ],
)
def test_expressions_of_real_numbers_match_python(text: str, want: float) -> None:
    assert math.isclose(value(text, x=X, y=Y), want, rel_tol=1e-15)


def test_integer_division_matches_c_and_python() -> None:
    assert value("quotient(a, b)", WHOLE, a=-7, b=2) == -3 and value("a // b", WHOLE, a=-7, b=2) == -4
    assert value("quotient(a, b)", WHOLE, a=7, b=-2) == -3 and value("abs(a) % b", WHOLE, a=-7, b=4) == 3
