"""Cases of LayerNorm, Softmax and ReduceMean."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from case import Array, Case, f32, normal, tag


def layer_norm() -> Iterator[Case]:
    def oracle(x: Array, gamma: Array | None, beta: Array | None, epsilon: float, axes: list[int]) -> Any:
        def judge(pt: Any, t: Any) -> Any:
            kept = [d for d in range(x.ndim) if d not in axes]
            order = kept + axes  # gamma and beta have the dims of `axes` in their order
            shape = [x.shape[a] for a in axes]
            weights = [None if v is None else t(v) for v in (gamma, beta)]
            y = pt.nn.functional.layer_norm(t(x).permute(order), shape, *weights, epsilon)
            return y.permute([order.index(d) for d in range(x.ndim)])

        return judge

    many = [
        ((200, 768), [1]), ((6,), [0]), ((4, 1), [1]), ((2, 3, 4), [2]), ((2, 3, 4), [1, 2]),
        ((2, 3, 4), [2, 1]), ((2, 3, 4), [0]), ((2, 3, 4), [1]), ((2, 3, 4, 5), [0, 2]),
        ((2, 3, 4, 5), [3, 0]), ((2, 3, 4, 5, 6), [4, 2, 0]), ((2, 3), [0, 1]), ((0, 3), [1]),
        ((3, 0), [1]), ((3, 33), [1]),
    ]  # fmt: skip
    for i, (shape, axes) in enumerate(many):
        x = normal(20 + i, *shape) * 3 + 5
        own = [shape[a] for a in axes]
        for has_gamma, has_beta in itertools.product((True, False), repeat=2):
            gamma = normal(60 + i, *own) if has_gamma else None
            beta = normal(90 + i, *own) if has_beta else None
            label = f"{tag(shape)}-{axes}-{'g' * has_gamma}{'b' * has_beta}".replace(" ", "")
            sizes = [1.0 if v is None else float(np.abs(v).max(initial=0)) for v in (gamma, beta)]
            yield Case(
                label,
                "opdb_layer_norm",
                (x, gamma, beta, 1e-3, axes),
                f32(shape),
                oracle(x, gamma, beta, 1e-3, axes),
                ulp=4,
                absolute=(4 * sizes[0] + sizes[1]) * 2**-22,  # the terms are rounded to float32
            )
    x = normal(33, 3, 9)
    x[1, 2], x[2, 3] = np.nan, np.inf
    yield Case(
        "special",
        "opdb_layer_norm",
        (x, None, None, 1e-6, [1]),
        f32(x.shape),
        oracle(x, None, None, 1e-6, [1]),
        ulp=4,
    )


def softmax() -> Iterator[Case]:
    def case(label: str, x: Array, axis: int, beta: float) -> Case:
        return Case(
            label,
            "opdb_softmax",
            (x, axis, beta),
            f32(x.shape),
            lambda pt, t: pt.softmax(t(x) * beta, axis),
            ulp=lambda want: 4 - 2 * np.log(want),  # the difference to the largest is rounded to float32
        )

    for shape in ((1,), (9,), (200, 100), (2, 3, 4), (2, 0, 3), (2, 3, 4, 130), (2, 3, 1, 4, 5)):
        for axis in range(len(shape)):
            for beta in (1.0, 0.25, -2.0):
                yield case(f"{tag(shape)}-{axis}-{beta}", normal(7, *shape) * 20, axis, beta)
    x = normal(8, 6, 5)
    x[1, 2], x[2, 3], x[3, 1], x[4, :], x[5, :] = np.nan, np.inf, -np.inf, -np.inf, 3e38
    yield case("special", x, 1, 1.0)
    yield case("special-columns", np.ascontiguousarray(x.T), 0, 1.0)


def reduce_mean() -> Iterator[Case]:
    for shape in ((7,), (3, 5), (2, 3, 4), (2, 3, 4, 300), (2, 1, 3, 1, 4), (2, 0, 3), (1, 1)):
        for n in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), n):
                for keep_dims in (False, True):
                    x = normal(9, *shape) + 4
                    order = list(axes)[::-1]  # the order does not matter
                    kept = tuple(np.empty(shape, bool).sum(axis=axes, keepdims=keep_dims).shape) or (1,)

                    def oracle(pt: Any, t: Any, x=x, a=order, out=kept) -> Any:
                        return t(x).mean(a).reshape(out)

                    label = f"{tag(shape)}-{axes}{'-keep' * keep_dims}".replace(" ", "")
                    yield Case(label, "opdb_reduce_mean", (x, order), f32(kept), oracle)
    x = normal(3, 4, 5)
    x[0, 1], x[1, 1], x[2, 1] = np.nan, np.inf, -np.inf
    yield Case("special", "opdb_reduce_mean", (x, [1]), f32((4,)), lambda pt, t: t(x).mean(1))
