"""Converts ranges of real values to encodings.  Scales are float32, as QNN stores them; real zero is always a stored value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdb.core.op_config import Quant
from opdb.runtime.qnn.real_numbers import limits

Array = np.ndarray[Any, Any]
#: The smallest scale: below it, products of two scales leave the range of float32.
SMALLEST = 2.0**-60
#: The scale of a tensor that is always zero.  HTP adds in steps of the larger scale: beside zeros of scale 1, x keeps 38 dB, and 85 beside
#: these (probe HTP 2.47.0 QCM6490 SM8550).
OF_ZEROS = 2.0**-16


@dataclass(frozen=True)
class Range:
    """The real values that a tensor takes; zero is always among them.

    ``steps``: the number of steps of an encoding that make 1, by data type, if the spec of an op says so.
    """

    low: float = 0.0
    high: float = 0.0
    steps: tuple[tuple[str, int], ...] = ()

    def __or__(self, other: Range) -> Range:
        """The union of both; the steps of a range that includes the other are kept."""
        for all_of, some in sorted(((self, other), (other, self)), key=lambda pair: not pair[0].steps):
            if all_of.low <= some.low and some.high <= all_of.high:
                return all_of
        return Range(min(self.low, other.low), max(self.high, other.high))

    def widened(self, margin: float) -> Range:
        """Moves both ends away from zero by the share ``margin``."""
        return Range(self.low * (1 + margin), self.high * (1 + margin))

    @classmethod
    def of(cls, values: Array) -> Range:
        """The range of an array of finite values."""
        if not values.size:
            return cls()
        return cls(min(0.0, float(values.min())), max(0.0, float(values.max())))


def encoding(values: Range, dtype: str, symmetric: bool) -> Quant:
    """One scale and offset for all values of a quantized type (short name); ``symmetric``: zero in the middle."""
    low, high = limits(dtype)
    steps = dict(values.steps).get(dtype)
    if symmetric:
        found = symmetric_encoding([max(-values.low, values.high)], dtype, None)
        return found if steps is None else replace(found, scale=(1.0 / steps,))
    scale = _scale((values.high - values.low) / (high - low) if steps is None else 1.0 / steps)
    zero = min(max(low + round(-values.low / scale), low), high)
    return Quant("SCALE_OFFSET", (scale,), (-zero,))


def symmetric_encoding(largest: Sequence[float], dtype: str, axis: int | None) -> Quant:
    """The symmetric encoding for ``largest``, the largest magnitude, or one per slice along ``axis`` if that is not None."""
    low, high = limits(dtype)
    middle = (low + high + 1) // 2
    scales = tuple(_scale(m / (high - middle)) for m in largest)
    kind = "SCALE_OFFSET" if axis is None else "AXIS_SCALE_OFFSET"
    return Quant(kind, scales, (-middle,) * len(scales), axis)


def in_16_bits(quant: Quant) -> Quant:
    """The encoding of uq16 with the ends of ``quant``, which has one scale of uq8: 257 steps for each of its steps."""
    scale = float(np.float32(quant.scale[0] / 257))
    return replace(quant, scale=(scale,), offset=(quant.offset[0] * 257,))


def of_data(data: Array, dtype: str, symmetric: bool, axis: int | None) -> Quant:
    """The encoding that fits known values best; along ``axis`` it is symmetric."""
    if axis is None:
        return encoding(Range.of(data), dtype, symmetric)
    others = tuple(d for d in range(data.ndim) if d != axis)
    return symmetric_encoding([float(m) for m in np.abs(data).max(others)], dtype, axis)


def product(quants: Sequence[Quant], axis: int | None) -> Quant:
    """The encoding of a sum of products: the scales multiplied, offset 0; per slice if one of them is.

    A single slice also has an axis: HTP drops a bias with one scale beside weights with a scale per slice (HTP-0442 to HTP-0445).
    """
    size = max(len(q.scale) for q in quants)
    scales = [1.0] * size
    for q in quants:
        own = q.scale if len(q.scale) == size else q.scale * size
        scales = [s * o for s, o in zip(scales, own, strict=True)]
    rounded = tuple(_scale(s) for s in scales)
    if all(q.axis is None for q in quants):
        return Quant("SCALE_OFFSET", rounded, (0,))
    return Quant("AXIS_SCALE_OFFSET", rounded, (0,) * size, axis)


def _scale(value: float) -> float:
    """A scale as QNN stores it."""
    return float(np.float32(max(value, SMALLEST))) if value else OF_ZEROS
