"""Cases of Concat, Split, Reshape and Transpose, which move elements of any type."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from case import Array, Case, tag

MOVED = (np.uint8, np.bool_, np.int8, np.int16, np.float16, np.float32, np.int32, np.float64, np.uint64)


def elements(seed: int, shape: Sequence[int], kind: Any) -> Array:
    """Random values of this type except NaN, which equals nothing."""
    numbers = np.random.default_rng(seed).integers(0, 100, tuple(shape))
    return numbers.astype(kind)


def concat() -> Iterator[Case]:
    for kind in MOVED:
        for shape, axis, parts in (
            ((2, 3, 4), 0, (1, 2)),
            ((2, 3, 4), 1, (3, 1, 2)),
            ((2, 3, 4), 2, (5, 0, 1)),
            ((4,), 0, (2, 2)),
            ((2, 0, 3), 2, (1, 2)),
            ((1, 1, 2, 1, 3), 3, (1, 1)),
            ((3, 2), 1, (2,)),
        ):
            xs = [elements(i, (*shape[:axis], p, *shape[axis + 1 :]), kind) for i, p in enumerate(parts)]
            out = (*shape[:axis], sum(parts), *shape[axis + 1 :])
            yield Case(
                f"{kind.__name__}-{tag(out)}-{axis}",
                "opdb_concat",
                (xs, axis),
                ((out, kind),),
                lambda pt, t, xs=xs, axis=axis: pt.cat([t(x) for x in xs], axis),
                exact=True,
            )


def split() -> Iterator[Case]:
    for kind in MOVED:
        for shape, axis, index in (
            ((6, 2), 0, [2, 3]),
            ((2, 6, 3), 1, [1, 5]),
            ((2, 3, 7), 2, [4]),
            ((5,), 0, []),
            ((0, 4), 1, [1]),
            ((1, 2, 1, 5, 2), 3, [1, 2, 3, 4]),
        ):
            x = elements(1, shape, kind)
            sizes = np.diff([0, *index, shape[axis]]).tolist()
            outs = tuple(((*shape[:axis], n, *shape[axis + 1 :]), kind) for n in sizes)
            yield Case(
                f"{kind.__name__}-{tag(shape)}-{axis}-{len(sizes)}",
                "opdb_split",
                (x, axis),
                outs,
                lambda pt, t, x=x, s=sizes, a=axis: pt.split(t(x), s, a),
                variadic=True,
                exact=True,
            )


def reshape() -> Iterator[Case]:
    for kind in MOVED:
        for before, after in (((2, 3, 4), (4, 6)), ((), (1, 1)), ((6,), (6,)), ((0, 3), (3, 0, 2))):
            x = elements(2, before, kind)
            yield Case(
                f"{kind.__name__}-{tag(before)}-{tag(after)}",
                "opdb_reshape",
                (x,),
                ((after, kind),),
                lambda pt, t, x=x, after=after: t(x).reshape(after),
                exact=True,
            )


def transpose() -> Iterator[Case]:
    shapes = [(5,), (3, 4), (17, 33), (1, 6), (2, 3, 4), (2, 0, 3), (2, 3, 1, 5), (2, 3, 2, 1, 4)]
    for kind in MOVED:
        for shape in shapes if kind is np.float32 else shapes[:5]:
            for perm in itertools.permutations(range(len(shape))):
                x = elements(3, shape, kind)
                out = tuple(shape[p] for p in perm)
                yield Case(
                    f"{kind.__name__}-{tag(shape)}-{tag(perm)}",
                    "opdb_transpose",
                    (x, list(perm)),
                    ((out, kind),),
                    lambda pt, t, x=x, p=perm: t(x).permute(p),
                    exact=True,
                )
