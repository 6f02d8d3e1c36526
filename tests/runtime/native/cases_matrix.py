"""Cases of FullyConnected, MatMul, Conv2d and DepthWiseConv2d."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from case import Case, Shape, f32, normal, tag


def fully_connected() -> Iterator[Case]:
    for lead, n, m in (
        ((200,), 768, 100),
        ((1,), 1, 1),
        ((3,), 5, 9),
        ((2, 3), 33, 8),
        ((2, 1, 3, 2), 7, 37),
        ((0,), 4, 3),
        ((3,), 0, 4),
        ((3,), 4, 0),
        ((5,), 50, 6),
        ((1,), 512, 9),
        ((65,), 300, 65),
    ):
        for has_bias, keep_dims in itertools.product((True, False), repeat=2):
            x, weight = normal(1, *lead, n), normal(2, m, n)
            bias = normal(3, m) if has_bias else None
            batch = int(np.prod(lead))
            out = (*lead, m) if keep_dims else (batch, m)

            def oracle(pt: Any, t: Any, x=x, w=weight, b=bias, out=out) -> Any:
                return pt.nn.functional.linear(t(x), t(w), None if b is None else t(b)).reshape(out)

            yield Case(
                f"{tag(x.shape)}-{m}{'-bias' * has_bias}{'-keep' * keep_dims}",
                "opdb_fully_connected",
                (x, weight, bias),
                f32(out),
                oracle,
            )


def mat_mul() -> Iterator[Case]:
    batches: tuple[tuple[Shape, Shape], ...] = (
        ((), ()),
        ((2,), (2,)),
        ((3,), ()),
        ((), (3,)),
        ((2, 1), (1, 3)),
        ((2, 3), (3,)),
        ((0,), ()),
        ((2, 1, 3), (4, 1)),
        ((1,), (1,)),
        ((2, 3), (1, 1)),
    )
    sizes = ((1, 1, 1), (4, 8, 5), (33, 130, 9), (5, 0, 3), (37, 3, 41))
    for (ba, bb), (m, k, n), ta, tb in itertools.product(batches, sizes, (False, True), (False, True)):
        a = normal(4, *ba, *((k, m) if ta else (m, k)))
        b = normal(5, *bb, *((n, k) if tb else (k, n)))
        bias = normal(6, n) if (len(ba) + m + ta) % 2 else None

        def oracle(pt: Any, t: Any, a=a, b=b, bias=bias, ta=ta, tb=tb) -> Any:
            y = (t(a).mT if ta else t(a)) @ (t(b).mT if tb else t(b))
            return y if bias is None else y + t(bias)

        out = (*np.broadcast_shapes(ba, bb), m, n)
        yield Case(
            f"{tag(a.shape)}-{tag(b.shape)}{'-t0' * ta}{'-t1' * tb}",
            "opdb_mat_mul",
            (a, b, bias, ta, tb),
            f32(out),
            oracle,
        )


def conv2d() -> Iterator[Case]:
    many = [  # x, filter height and width, channels out, stride, pad, group, dilation
        ((1, 5, 6, 3), (3, 3), 4, [1, 1], [[1, 1], [1, 1]], 1, [1, 1]),
        ((2, 7, 5, 4), (2, 3), 6, [2, 1], [[0, 1], [2, 0]], 2, [1, 1]),
        ((1, 9, 9, 6), (3, 2), 6, [2, 2], [[2, 1], [0, 3]], 6, [2, 3]),
        ((1, 8, 8, 6), (3, 3), 12, [1, 1], [[1, 1], [1, 1]], 6, [1, 1]),
        ((3, 4, 4, 1), (1, 1), 1, [1, 1], [[0, 0], [0, 0]], 1, [1, 1]),
        ((1, 1, 1, 5), (3, 3), 2, [1, 1], [[1, 1], [1, 1]], 1, [1, 1]),
        ((0, 4, 4, 2), (2, 2), 2, [1, 1], [[0, 0], [0, 0]], 1, [1, 1]),
        ((1, 12, 11, 20), (5, 3), 9, [3, 2], [[4, 0], [1, 2]], 1, [2, 1]),
        ((1, 6, 6, 130), (2, 2), 33, [1, 1], [[0, 0], [1, 0]], 1, [1, 1]),
        ((1, 3, 3, 2), (3, 3), 2, [1, 1], [[5, 5], [5, 5]], 1, [3, 3]),
        ((2, 9, 11, 40), (3, 3), 40, [1, 1], [[1, 1], [1, 1]], 40, [1, 1]),
        ((1, 7, 23, 16), (3, 2), 16, [1, 2], [[0, 1], [2, 0]], 16, [2, 1]),
        ((1, 10, 12, 35), (9, 9), 35, [1, 1], [[4, 4], [4, 4]], 35, [1, 1]),
    ]  # fmt: skip
    for i, (shape, (kh, kw), channels, stride, pad, group, dilation) in enumerate(many):
        x, weights = normal(i, *shape), normal(50 + i, kh, kw, shape[3] // group, channels)
        bias = normal(80 + i, channels) if i % 2 else None

        def oracle(pt: Any, t: Any, x=x, w=weights, b=bias, s=stride, p=pad, g=group, d=dilation) -> Any:
            padded = pt.nn.functional.pad(t(x).permute(0, 3, 1, 2), (*p[1], *p[0]))
            y = pt.nn.functional.conv2d(
                padded, t(w).permute(3, 2, 0, 1), None if b is None else t(b), s, 0, d, g
            )
            return y.permute(0, 2, 3, 1)

        high, wide = (
            (shape[1 + j] + sum(pad[j]) - ((kh, kw)[j] - 1) * dilation[j] - 1) // stride[j] + 1
            for j in (0, 1)
        )
        name, y = f"{tag(shape)}-{tag(weights.shape)}-g{group}", f32((shape[0], high, wide, channels))
        yield Case(name, "opdb_conv2d", (x, weights, bias, stride, pad, group, dilation), y, oracle)
        if group == shape[3]:
            inputs = (x, weights, bias, stride, pad, dilation)
            yield Case(name, "opdb_depth_wise_conv2d", inputs, y, oracle)
