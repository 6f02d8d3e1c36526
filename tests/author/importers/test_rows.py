"""Compacted type rows stand for exactly the rows they came from."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from opdb.author.importers.rows import compact
from opdb.catalog import facts

DTYPES = st.sampled_from(["f16", "f32", "uq8", "sq8"])
ROWS = st.lists(st.tuples(DTYPES, DTYPES, DTYPES), max_size=20)


def combinations(rows: list[dict[str, tuple[str, ...]]]) -> list[tuple[str, ...]]:
    return [c for row in rows for c in product(*row.values())]


@given(ROWS)
def test_compacting_keeps_each_combination_exactly_once(rows: list[tuple[str, str, str]]) -> None:
    found = combinations(compact([{"x": (a,), "w": (b,), "y": (c,)} for a, b, c in rows]))
    assert sorted(found) == sorted(set(rows))


def test_documented_tables_shrink_without_loss() -> None:
    before = after = 0
    for name in facts.documented_ops():
        htp = facts.documented_op(name).backends.get("HTP")
        if htp is None:
            continue
        for config in {c for c, _ in htp.rows}:
            rows = [dict(r) for c, r in htp.rows if c == config and set(r) == set(htp.rows[0][1])]
            joined = compact(rows)
            assert set(combinations(joined)) == set(combinations(rows)), (name, config)
            before, after = before + len(rows), after + len(joined)
    assert after < before * 0.6


def test_a_full_product_becomes_one_row() -> None:
    rows = [{"x": ("uq16",), "gamma": (g,), "beta": (b,)} for g in ("uq8", "sq16") for b in ("uq8", "sq32")]
    assert compact(rows) == [{"x": ("uq16",), "gamma": ("uq8", "sq16"), "beta": ("uq8", "sq32")}]
