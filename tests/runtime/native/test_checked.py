"""checked.h, lists.h and report.h against Python, under UBSan."""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Callable
from typing import Any

import c_library as c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = [pytest.mark.slow, pytest.mark.native]

LIMIT = 2**63
EDGES = (-LIMIT, -LIMIT + 1, -(2**32), -2, -1, 0, 1, 2, 2**31 - 1, 2**32, LIMIT - 1)
INT64 = st.sampled_from(EDGES) | st.integers(-LIMIT, LIMIT - 1) | st.integers(-9, 9)
SMALL = st.integers(-9, 9)
LISTS = st.lists(SMALL, max_size=9)
SHAPES = st.lists(st.integers(0, 4), max_size=6)
LONG = st.lists(INT64, max_size=80)


class Undecidable(Exception):
    """Raised by Python where C clears ok."""


def guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (IndexError, ZeroDivisionError, ValueError, Undecidable):
        return None


def checked_int(value: int) -> int:
    if not -LIMIT <= value < LIMIT:
        raise Undecidable
    return value


def checked_list(values: list[int]) -> list[int]:
    if len(values) > 64:
        raise Undecidable
    return values


def run(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    """The value of a partial C function, or None if it cleared ok; its value must be 0 or empty then."""
    function = getattr(library, name)
    function.restype = result
    converted = [c.argument(a) for a in arguments]  # a result may look into them
    ok = ctypes.c_bool(True)
    value = plain(function(*converted, ctypes.byref(ok)))
    if ok.value:
        again = ctypes.c_bool(False)  # a cleared flag stays cleared
        function(*converted, ctypes.byref(again))
        assert not again.value
        return value
    assert value in (0, [])
    return None


def total(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Any:
    function = getattr(library, name)
    function.restype = result
    converted = [c.argument(a) for a in arguments]  # a result may look into them
    return plain(function(*converted))


def plain(value: Any) -> Any:
    return [value.v[i] for i in range(value.n)] if isinstance(value, (c.Ints, c.List)) else value


ARITHMETIC = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
}


@pytest.mark.parametrize("name", ARITHMETIC)
@settings(max_examples=400, deadline=None)
@given(a=INT64, b=INT64)
def test_arithmetic_matches_python_within_64_bits(checked: ctypes.CDLL, name: str, a: int, b: int) -> None:
    want = guarded(lambda: checked_int(ARITHMETIC[name](a, b)))
    assert run(checked, f"export_{name}", ctypes.c_int64, a, b) == want


@settings(max_examples=200, deadline=None)
@given(a=INT64, b=INT64)
def test_negation_minimum_and_maximum_match_python(checked: ctypes.CDLL, a: int, b: int) -> None:
    assert run(checked, "export_neg", ctypes.c_int64, a) == guarded(lambda: checked_int(-a))
    assert total(checked, "export_min", ctypes.c_int64, a, b) == min(a, b)
    assert total(checked, "export_max", ctypes.c_int64, a, b) == max(a, b)


@settings(max_examples=300, deadline=None)
@given(s=LISTS, i=SMALL | INT64)
def test_an_index_counts_from_either_end(checked: ctypes.CDLL, s: list[int], i: int) -> None:
    assert run(checked, "export_at", ctypes.c_int64, s, i) == guarded(lambda: s[i])


@settings(max_examples=500, deadline=None)
@given(s=LISTS, lo=st.none() | SMALL | INT64, hi=st.none() | SMALL | INT64)
def test_a_slice_is_clamped(checked: ctypes.CDLL, s: list[int], lo: int | None, hi: int | None) -> None:
    got = total(checked, "export_slice", c.Ints, s, lo is not None, lo or 0, hi is not None, hi or 0)
    assert got == s[lo:hi]


@settings(max_examples=200, deadline=None)
@given(data=st.data(), n=st.integers(0, 4), width=st.integers(0, 4), i=SMALL)
def test_rows_of_a_parameter_match_python(
    checked: ctypes.CDLL, data: st.DataObject, n: int, width: int, i: int
) -> None:
    values = data.draw(st.lists(SMALL, min_size=n * width, max_size=n * width))
    table = [values[r * width : (r + 1) * width] for r in range(n)]
    assert run(checked, "export_row", c.Ints, c.Rows(n, width, c.int64s(values)), i) == guarded(
        lambda: table[i]
    )


PREDICATES: dict[str, Callable[[list[int]], bool]] = {
    "unique": lambda s: len(set(s)) == len(s),
    "increasing": lambda s: all(a < b for a, b in itertools.pairwise(s)),
}


@pytest.mark.parametrize("name", PREDICATES)
@settings(max_examples=200, deadline=None)
@given(s=LISTS | st.lists(SMALL, unique=True, max_size=5).map(sorted))
def test_predicates_match_python(checked: ctypes.CDLL, name: str, s: list[int]) -> None:
    assert total(checked, f"opdb_{name}", ctypes.c_bool, s) == PREDICATES[name](s)


REDUCTIONS: dict[str, Callable[[list[int]], int]] = {
    "sum": lambda s: [r := 0, *(r := checked_int(r + v) for v in s)][-1],
    "prod": lambda s: [r := 1, *(r := checked_int(r * v) for v in s)][-1],
    "list_min": min,
    "list_max": max,
}


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=300, deadline=None)
@given(s=LISTS | LONG)
def test_reductions_match_python(checked: ctypes.CDLL, name: str, s: list[int]) -> None:
    assert run(checked, f"opdb_{name}", ctypes.c_int64, s) == guarded(REDUCTIONS[name], s)


@settings(max_examples=300, deadline=None)
@given(a=LISTS, b=LISTS, v=SMALL)
def test_same_and_contains_match_python(checked: ctypes.CDLL, a: list[int], b: list[int], v: int) -> None:
    assert total(checked, "opdb_same", ctypes.c_bool, a, b) == (a == b)
    assert total(checked, "opdb_same", ctypes.c_bool, a, list(a))
    assert total(checked, "opdb_contains", ctypes.c_bool, a, v) == (v in a)


@settings(max_examples=500, deadline=None)
@given(a=SHAPES, b=SHAPES)
def test_broadcasting_matches_numpy(checked: ctypes.CDLL, a: list[int], b: list[int]) -> None:
    want = guarded(lambda: list(np.broadcast_shapes(tuple(a), tuple(b))))
    assert total(checked, "opdb_broadcastable", ctypes.c_bool, a, b) == (want is not None)
    assert run(checked, "opdb_broadcast", c.List, a, b) == want


@settings(max_examples=300, deadline=None)
@given(s=LISTS, idx=LISTS | st.lists(st.integers(0, 2), max_size=70))
def test_gather_matches_python(checked: ctypes.CDLL, s: list[int], idx: list[int]) -> None:
    assert run(checked, "opdb_gather", c.List, s, idx) == guarded(lambda: checked_list([s[i] for i in idx]))


def replaced(s: list[int], i: int, value: int) -> list[int]:
    copy = list(s)
    copy[i] = value
    return checked_list(copy)


@settings(max_examples=300, deadline=None)
@given(s=LISTS | LONG, i=SMALL | INT64, v=INT64)
def test_replace_matches_python(checked: ctypes.CDLL, s: list[int], i: int, v: int) -> None:
    assert run(checked, "opdb_replace", c.List, s, i, v) == guarded(replaced, s, i, v)


@settings(max_examples=300, deadline=None)
@given(lo=INT64, hi=INT64, near=st.integers(-2, 70))
def test_range_matches_python(checked: ctypes.CDLL, lo: int, hi: int, near: int) -> None:
    for end in (hi, min(lo + near, LIMIT - 1)):
        want = guarded(lambda end=end: checked_list([*range(lo, end)] if end - lo <= 64 else [0] * 65))
        assert run(checked, "opdb_range", c.List, lo, end) == want


@settings(max_examples=200, deadline=None)
@given(a=LISTS | LONG, b=LISTS | LONG)
def test_cat_matches_python(checked: ctypes.CDLL, a: list[int], b: list[int]) -> None:
    assert run(checked, "opdb_cat", c.List, a, b) == guarded(lambda: checked_list(a + b))


@settings(max_examples=200, deadline=None)
@given(s=LISTS, n=st.integers(-2, 70))
def test_expand_matches_python(checked: ctypes.CDLL, s: list[int], n: int) -> None:
    def expand() -> list[int]:
        if len(s) not in (1, n) or n < 0:
            raise Undecidable
        return checked_list(s * n if len(s) == 1 else s)

    assert run(checked, "opdb_expand", c.List, s, n) == guarded(expand)


@settings(max_examples=400, deadline=None)
@given(
    data=st.data(),
    s=st.lists(st.integers(0, 5), max_size=5),
    keep=st.booleans(),
)
def test_reduced_matches_numpys_shape(
    checked: ctypes.CDLL, data: st.DataObject, s: list[int], keep: bool
) -> None:
    axes = data.draw(st.lists(st.integers(-1, len(s)), max_size=4))

    def reduced() -> list[int]:
        if any(a < 0 for a in axes):
            raise Undecidable
        return list(np.empty(s).sum(axis=tuple(axes), keepdims=keep).shape) or [1]

    assert run(checked, "opdb_reduced", c.List, s, axes, keep) == guarded(reduced)


def test_an_absent_tensor_is_undecidable(checked: ctypes.CDLL) -> None:
    x = c.tensor(np.zeros((2, 3), np.float32))
    assert run(checked, "export_shape_of", c.Ints, x) == [2, 3]
    assert run(checked, "export_shape_of", c.Ints, None) is None

    pointers = (ctypes.POINTER(c.Tensor) * 2)(ctypes.pointer(x), ctypes.POINTER(c.Tensor)())
    nth = checked.export_nth
    nth.restype = ctypes.POINTER(c.Tensor)
    for index, present in ((0, True), (-2, True), (1, False), (-1, False), (2, False), (-3, False)):
        ok = ctypes.c_bool(True)
        found = nth(c.Tensors(2, pointers), ctypes.c_int64(index), ctypes.byref(ok))
        assert ok.value == present
        assert found.contents.rank == (2 if present else 0)


def test_a_list_is_viewed_without_a_copy(checked: ctypes.CDLL) -> None:
    values = c.List(2, (ctypes.c_int64 * 64)(7, 8))
    checked.export_view.restype = c.Ints
    view = checked.export_view(ctypes.byref(values))
    values.v[1] = 9
    assert plain(view) == [7, 9]


def text(kind: str, value: Any) -> str:
    if kind == "ints":
        return "[" + ", ".join(map(str, value)) + "]"
    if kind == "real":
        return format(value, ".9g")
    return str(value).lower() if kind == "bool" else str(value)


NAMES = st.text("abcdefgh.[]0123456789_", min_size=1, max_size=20)
VALUES = st.one_of(
    st.tuples(st.just("int"), INT64),
    st.tuples(st.just("ints"), LONG),
    st.tuples(st.just("real"), st.floats()),
    st.tuples(st.just("name"), NAMES),
    st.tuples(st.just("bool"), st.booleans()),
)


@settings(max_examples=300, deadline=None)
@given(items=st.lists(st.tuples(NAMES, VALUES), max_size=16))
def test_got_is_the_joined_text_truncated_to_fit(checked: ctypes.CDLL, items: list[tuple[str, Any]]) -> None:
    violation = c.Violation()
    for name, (kind, value) in items:
        argument = value.encode() if kind == "name" else c.argument(value)
        getattr(checked, f"opdb_got_{kind}")(ctypes.byref(violation), name.encode(), argument)
    whole = ", ".join(f"{name} = {text(kind, value)}" for name, (kind, value) in items)
    assert violation.got.decode() == (whole if len(whole) < c.MAX_GOT else whole[: c.MAX_GOT - 4] + "...")


def test_a_full_report_counts_dropped_violations(checked: ctypes.CDLL) -> None:
    report = c.Report()
    broken = checked.opdb_broken
    broken.restype = ctypes.POINTER(c.Violation)
    flags = [(i % 2 == 0, i % 3) for i in range(70)]
    rules = [b"Op.C%d" % i for i in range(70)]  # the report keeps pointers
    sentence, why = b"x must be y", b"the kernel has one lane"
    for i, (undecidable, strength) in enumerate(flags):
        v = broken(ctypes.byref(report), rules[i], sentence, why, ctypes.c_bool(undecidable), strength)
        assert bool(v) == (i < 64)
        checked.opdb_got_int(v, b"i", ctypes.c_int64(i))  # NULL is allowed
    assert (report.n, report.dropped) == (64, 6)
    assert [(v.undecidable, v.strength) for v in report.v] == flags[:64]
    assert report.v[63].got == b"i = 63"
    assert [v.rule for v in report.v] == rules[:64]
    assert (report.v[63].sentence, report.v[63].why) == (sentence, why)


def test_nan_is_printed_without_a_sign(checked: ctypes.CDLL) -> None:
    violation = c.Violation()
    checked.opdb_got_real(ctypes.byref(violation), b"e", ctypes.c_double(math.copysign(math.nan, -1)))
    assert violation.got == b"e = nan"
