"""Checks how well prices predict the simulation: ranks and signs, each network by a table that was made without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from opdb.lower.cost import BYTES, MACS
from opdb.lower.prices import Work
from opdb.measure.cost.difference import NOISE
from opdb.measure.cost.price_fit.fit import Array, table
from opdb.measure.cost.price_fit.pairs import Pair

#: Sets of pairs by name, in printing order.
SETS: dict[str, Callable[[Pair], bool]] = {
    "candidates": lambda p: p.kind == "candidate",
    "candidates that differ by 2 %": lambda p: p.kind == "candidate" and _clear(p),
    "all pairs": lambda p: p.kind != "whole",
    "all pairs that differ by 2 %": lambda p: p.kind != "whole" and _clear(p),
    "whole networks": lambda p: p.kind == "whole",
}


def _clear(p: Pair) -> bool:
    return abs(p.us) >= NOISE * max(p.before, p.after)


@dataclass(frozen=True)
class Check:
    """A check on a set of pairs: Spearman's rank correlation, and the share of pairs with the right sign; None if there are too few.

    ``table``: by the table; ``left_out``: by tables made without the network; ``model``: by the prices without a table.
    """

    name: str
    pairs: int
    table: tuple[float | None, float | None]
    left_out: tuple[float | None, float | None]
    model: tuple[float | None, float | None]


def checks(pairs: Sequence[Pair]) -> Iterator[Check]:
    """Yields a check for each of SETS."""
    us = np.array([p.us for p in pairs])
    own = table(pairs, "", "")
    with_table = np.array([own.difference(p.ops) for p in pairs])
    without = np.full(len(pairs), np.nan)
    for network in dict.fromkeys(p.network for p in pairs):
        others = [p for p in pairs if p.network != network]
        if not others:
            break
        other = table(others, "", "")
        for i, p in enumerate(pairs):
            if p.network == network:
                without[i] = other.difference(p.ops)
    modeled = np.array([model(p.ops) for p in pairs])
    for name, chosen in SETS.items():
        at = np.array([chosen(p) for p in pairs], bool)
        figures = (_figures(found[at], us[at]) for found in (with_table, without, modeled))
        yield Check(name, int(at.sum()), *figures)


def model(work: Work) -> float:
    """The price without a table (opdb.lower.cost.Modeled), in its own unit."""
    return sum(c.ops + (c.bytes + c.layout_bytes) / BYTES + c.macs / MACS for c in work.values())


def _figures(found: Array, us: Array) -> tuple[float | None, float | None]:
    if len(us) < 3 or np.isnan(found).any():
        return None, None
    moved = np.abs(us) > 0.05
    signs = np.sign(found[moved]) == np.sign(us[moved])
    return spearman(found, us), float(signs.mean()) if moved.any() else None


def spearman(a: Array, b: Array) -> float | None:
    """The rank correlation, ties ranked by their mean; None if all numbers on a side are equal."""
    x, y = _ranks(a), _ranks(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / size if size else None


def _ranks(values: Array) -> Array:
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[place]
