"""Encodings of the constants that builders make."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import Quant
from opdb.runtime.tensors import Rejection, TensorRef


def encoded(dtype: str, values: Sequence[float]) -> tuple[list[int], float, int]:
    """Returns the stored integers for ``values`` in the quantized type ``dtype``, with the scale and QNN's offset.

    A single value is stored as the largest integer times a small scale, with zero in the middle, as rules for weights want it;
    a scale equal to the value itself would be far from those of the neighboring tensors (HTP-0358).  Several values are multiples
    of the smallest scale that represents all of them if there is one; e.g. 1, 1.5 and 2.25 are 56, 84 and 126 times 1 / 56
    (HTP-0359).
    """
    kind = BY_SHORT[dtype]
    if not all(math.isfinite(v) for v in values):
        raise Rejection(
            f"the constant {next(v for v in values if not math.isfinite(v))} of the type {kind.qnn}"
        )
    middle = 2 ** (kind.bits - 1)
    zero = middle if dtype.startswith("u") else 0
    largest = max(map(abs, values))
    scale = (largest or 1.0) / (middle - 1)
    if len(values) > 1:
        scale = min((s for s in _exact(values) if largest / s < middle - 0.5), default=scale)
    return [zero + round(v / scale) for v in values], scale, -zero


def stored(t: TensorRef) -> TensorRef:
    """Converts ``t``, real numbers that a builder gave with a quantized type, to stored integers with their encoding."""
    if t.ramp is not None:
        raise Rejection(f"a constant of places of the type {BY_SHORT[t.dtype].qnn}")
    values = t.data if t.fill is None else (t.fill,)
    assert values is not None  # made by a builder, and not a ramp
    integers, scale, offset = encoded(t.dtype, values)
    quant = Quant("SCALE_OFFSET", (scale,), (offset,))
    return replace(
        t,
        quant=quant,
        fill=None if t.fill is None else integers[0],
        data=None if t.data is None else tuple(integers),
    )


def _exact(values: Sequence[float]) -> Iterator[float]:
    """Yields scales that divide all of ``values`` without remainder."""
    smallest = min((abs(v) for v in values if v), default=1.0)
    for parts in range(1, 257):
        scale = smallest / parts
        if all(abs(v / scale - round(v / scale)) < 1e-6 for v in values):
            yield scale
