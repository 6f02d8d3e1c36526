"""Rows for people: rows that differ only in the SDK become one row with ranges of SDKs, e.g. 2.47-2.49, 2.51."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter

from opdb.catalog.query.rows import Row

_PLACE = itemgetter("op", "type_row", "backend", "soc")


def by_range(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[Row]:
    """Yields rows with ``columns`` alone; those of one place that are equal but for ``sdk`` are merged.

    ``rows``: of the question "support", in its order.  Without the column ``sdk``, equal rows appear once.
    """
    others = [c for c in columns if c != "sdk"]
    values = itemgetter(*others) if len(others) > 1 else lambda row: tuple(row[c] for c in others)
    for _, group in groupby(rows, _PLACE):
        found: dict[tuple[object, ...], list[str]] = {}
        order: list[str] = []
        for row in group:
            sdk = row["sdk"] or ""
            if sdk not in order:
                order.append(sdk)
            found.setdefault(values(row), []).append(sdk)
        there = tuple(order)
        for of, sdks in found.items():
            yield {"sdk": ranges(tuple(sdks), there), **dict(zip(others, of, strict=True))}


@cache
def ranges(sdks: tuple[str, ...], order: tuple[str, ...]) -> str:
    """Lists SDKs as ranges; ``order`` has all SDKs, so that neighbors in it make a range: 2.47-2.49, 2.51."""
    places = sorted({order.index(s) for s in sdks})
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(order[r[0]] if len(r) == 1 else f"{order[r[0]]}-{order[r[-1]]}" for r in runs)
