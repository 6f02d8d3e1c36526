"""Text -> nodes -> text: printing gives text that parses to the same nodes, and printing again changes nothing."""

from __future__ import annotations

import pytest
from expressions import ENUMS, SCOPE, TYPES, texts
from hypothesis import example, given, settings

from opdb.spec.lang.nodes import Name, Scope, walk
from opdb.spec.lang.parse import parse
from opdb.spec.lang.printer import to_text

#: Every node kind, awkward precedence, and the edges of constants.
BY_HAND = (
    ("int", "n - (m - d)"),
    ("int", "n - m - d"),
    ("int", "-(n + 1) * -m"),
    ("int", "(n if p else m) + d"),
    ("int", "n if p else m if q else d"),
    ("int", "(n if p else m) if q else d"),
    ("int", "-9223372036854775808"),
    ("int", "- -5"),
    ("int", "0x10 + 1_000"),
    ("float", "f - -1e+22"),
    ("float", "-(-f)"),
    ("float", "1 / 3.0"),
    ("bool", "not (p and q) or not p"),
    ("bool", "(p or q) and (q or p)"),
    ("bool", "(n < m) == (m < n)"),
    ("bool", "not p == q"),
    ("bool", "(not p) == q"),
    ("bool", "n in (1,)"),
    ("bool", "(n in (1, 2)) == p"),
    ("bool", "n in S"),
    ("bool", "x.dtype not in (f32, f16)"),
    ("bool", "all(a < b for a in S for b in (S if p else axes) if a != b if b > 0)"),
    ("ints", "S[:]"),
    ("ints", "(S if p else L)[1:][:-1]"),
    ("ints", "[a if p else 1 for a in S if (p if q else q)]"),
    ("ints", "(w if p else x).shape"),
    ("int", "R[0][1]"),
    ("enum:mode", "mode if present(mode) else ADD"),
    ("int", "sum(S) + sum(a for a in S)"),
)


def check(type_: str, text: str) -> None:
    node = parse(text, SCOPE, type_)
    printed = to_text(node)
    again = parse(printed, SCOPE, type_)
    assert again == node, printed
    assert to_text(again) == printed
    assert [(n.range, n.checked) for n in walk(again)] == [(n.range, n.checked) for n in walk(node)]


@pytest.mark.parametrize(("type_", "text"), BY_HAND)
def test_handwritten_texts_survive_a_round_trip(type_: str, text: str) -> None:
    check(type_, text)


@settings(max_examples=600)
@given(texts(TYPES))
@example(("int", "(1 if p else 2) if (p if q else p) else 3"))
def test_random_texts_survive_a_round_trip(pair: tuple[str, str]) -> None:
    type_, text = pair
    if len(text) <= 500:
        check(type_, text)


TORCH = Scope({"input": Name("tensor"), "s": Name("str"), "eps": Name("float")}, torch=True)


@pytest.mark.parametrize("text", [
    "s == 'it\\'s'", 's in ("none", "tanh")', "lower_case(s) == 'a\\\\b'", 's != ""',
])  # fmt: skip
def test_strings_of_mappings_survive_a_round_trip(text: str) -> None:
    node = parse(text, TORCH, "bool")
    assert parse(to_text(node), TORCH, "bool") == node


def test_lists_of_lists_survive_a_round_trip() -> None:
    node = parse("[[1, 2], input.shape]", TORCH, "rows")
    assert parse(to_text(node), TORCH, "rows") == node
    assert set(ENUMS) <= set(SCOPE.enums)
