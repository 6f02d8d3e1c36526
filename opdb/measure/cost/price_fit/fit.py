"""Fits the table to pairs: prices that are never negative, and that explain the differences best."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from opdb.lower.candidates import forms
from opdb.lower.cost import Cost
from opdb.lower.prices import MB, Forms, G, Kind, Line, Table, Work, forms_of
from opdb.measure.cost.difference import NOISE
from opdb.measure.cost.price_fit.pairs import Pair

Array = np.ndarray[Any, np.dtype[np.float64]]
#: The tolerance of a difference: a part of the graph's time, a part of the difference, microseconds.
OF_GRAPH, OF_DIFFERENCE, AT_LEAST = 0.01, 0.05, 1.0
#: The strength that pulls a line to the pooled cost of its class; the minimum unit of deviation for each figure.
PULL, UNITS = 0.1, (0.3, 3.0, 20.0)


def table(pairs: Sequence[Pair], soc: str, build_id: str) -> Table:
    """Fits the table to these pairs."""
    models = tuple(dict.fromkeys(p.network for p in pairs))
    lines = _lines(pairs)
    found = Table(soc, build_id, models, lines)
    return Table(soc, build_id, models, lines, _compared(pairs, found))


def _lines(pairs: Sequence[Pair]) -> dict[Kind, Line]:
    kinds = sorted({kind for p in pairs for kind in p.ops})
    seen = Counter(kind for p in pairs for kind in p.ops)
    classes = sorted({_class(k) for k in kinds})
    together = _solved(pairs, classes, [_by_class(p.ops) for p in pairs])
    pooled = dict(zip(classes, together, strict=True))
    prior = np.array([pooled[_class(k)] for k in kinds])
    own = _solved(pairs, kinds, [p.ops for p in pairs], prior)
    found = {k: _line(x, seen[k]) for k, x in zip(kinds, own, strict=True)}
    return found | {k: _line(x, sum(k in map(_class, p.ops) for p in pairs)) for k, x in pooled.items()}


def _class(kind: Kind) -> Kind:
    return Kind("", kind.numbers, kind.shape)


def _by_class(work: Work) -> dict[Kind, Cost]:
    found: dict[Kind, Cost] = defaultdict(lambda: Cost(ops=0))
    for kind, cost in work.items():
        found[_class(kind)] += cost
    return found


def _line(prices: Array, pairs: int) -> Line:
    """Rounds to three digits: further digits differ between machines' arithmetic."""
    us, per_mb, per_g = (float(f"{x:.3g}") for x in prices)
    return Line(us, per_mb, per_g, pairs)


def _solved(
    pairs: Sequence[Pair], kinds: Sequence[Kind], works: Sequence[Work], prior: Array | None = None
) -> Array:
    """Solves for the prices of ``kinds``, one row each."""
    place = {kind: i for i, kind in enumerate(kinds)}
    off = np.array([_off(p) for p in pairs])
    a = np.zeros((len(pairs), len(kinds), 3))
    for row, work in enumerate(works):
        for kind, cost in work.items():
            a[row, place[kind]] = cost.ops, cost.bytes / MB, cost.macs / G
    a = a.reshape(len(pairs), -1) / off[:, None]
    b = np.array([p.us for p in pairs]) / off
    if prior is not None:
        pull = PULL**0.5 / np.maximum(prior, UNITS).ravel()
        a, b = np.vstack([a, np.diag(pull)]), np.concatenate([b, pull * prior.ravel()])
    return _non_negative(a, b).reshape(-1, 3)


def _off(p: Pair) -> float:
    graph = 0.0 if p.kind == "whole" else OF_GRAPH * max(p.before, p.after)
    return float(np.linalg.norm((graph, OF_DIFFERENCE * p.us, AT_LEAST)))


def _non_negative(a: Array, b: Array) -> Array:
    """The non-negative least-squares solution, by block principal pivoting (Kim and Park, 2011)."""
    size = np.linalg.norm(a, axis=0)
    size[size == 0] = 1
    a = a / size
    h, g = a.T @ a + 1e-9 * np.eye(a.shape[1]), a.T @ b
    free = np.ones(len(g), bool)
    fewest, chances = len(g) + 1, 3
    while True:
        x = np.zeros(len(g))
        x[free] = np.linalg.solve(h[np.ix_(free, free)], g[free])
        slope = h @ x - g
        wrong = (free & (x < -1e-9)) | (~free & (slope < -1e-9))
        count = int(wrong.sum())
        if not count:
            return np.asarray(np.maximum(x, 0) / size)
        if count < fewest:
            fewest, chances = count, 3
        elif chances:
            chances -= 1
        else:  # one at a time always terminates
            last = np.flatnonzero(wrong)[-1]
            wrong = np.arange(len(g)) == last
        free ^= wrong


def _compared(pairs: Iterable[Pair], prices: Table) -> frozenset[Forms]:
    """The forms that differ in the simulation and for which the prices choose the right one in every pair."""
    verdicts: dict[Forms, list[bool]] = defaultdict(list)
    told: set[Forms] = set()
    for p in pairs:
        if p.forms is None or p.more is None or p.fewer is None:
            continue
        target, taken, other = p.forms
        order = [f.name for f in forms(target)]
        earlier, later = sorted((taken, other), key=order.index)
        works = {taken: p.fewer, other: p.more}
        saves = prices.saves(works[later], works[earlier]) and all(map(prices.knows, works.values()))
        chosen = later if saves else earlier
        key = forms_of(target, earlier, later, (works[earlier], works[later]))
        verdicts[key].append(chosen == (other if p.us < -NOISE * p.before else taken))
        if abs(p.us) >= NOISE * p.before:
            told.add(key)
    return frozenset(key for key in told if all(verdicts[key]))
