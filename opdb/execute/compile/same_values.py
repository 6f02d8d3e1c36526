"""Finds tensors of one computation in another by their values, in any layout and order of dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
#: The tolerance between moments: two float32 libraries compute them.
NEAR = 1e-3
#: Tensors with fewer elements have too few values to be recognized as multiples of others.
TELLING = 8


@dataclass(frozen=True)
class Print:
    """A fingerprint that does not depend on the order of values: ``size``, ``level`` (root mean square), and moments relative to it."""

    size: int
    level: float
    moments: tuple[float, ...]

    @classmethod
    def of(cls, values: Any) -> Print:
        """The fingerprint of real values of any shape."""
        flat = np.asarray(values, np.float64).reshape(-1)
        level = float(np.sqrt(np.mean(flat**2))) if flat.size else 0.0
        if not level or not np.isfinite(level):
            return cls(flat.size, 0.0, ())
        flat = flat / level
        found = (flat.min(), flat.max(), flat.mean(), np.abs(flat).mean(), (flat**3).mean())
        return cls(flat.size, level, tuple(map(float, found)))

    @property
    def telling(self) -> bool:
        """True if there are enough values to tell multiples of this tensor from other tensors."""
        return bool(self.level) and self.size >= TELLING

    def over(self, other: Print) -> float | None:
        """The factor by which ``other`` gives these values; None if no number above 0 makes them equal."""
        if self.size != other.size or bool(self.level) != bool(other.level):
            return None
        near = np.allclose(self.moments, other.moments, rtol=NEAR, atol=NEAR)
        return (self.level / other.level if self.level else 1.0) if near else None


def equal(factor: float | None) -> bool:
    """True if a factor of ``Print.over`` is 1."""
    return factor is not None and abs(factor - 1) < NEAR


@dataclass(frozen=True)
class Slices:
    """The location of one array's slices in another: its dimension ``axis``, and the factor of each slice."""

    axis: int
    factors: Array


def slices(weight: Array, axis: int | None, held: Array, in_order: bool = False) -> Slices | None:
    """Matches slices of ``weight`` along ``axis`` with slices of ``held`` times a number.

    ``axis`` None: everything is one slice.  ``in_order``: the elements of slices have the same order in both.  None if they do not match.
    """
    if weight.size != held.size or not weight.size:
        return None
    rows = _rows(weight, axis)
    for dimension in range(held.ndim) if axis is not None else (None,):
        if dimension is not None and held.shape[dimension] != len(rows):
            continue
        factors = _factors(rows, _rows(held, dimension), in_order)
        if factors is not None:
            return Slices(dimension or 0, factors)
    return None


def _rows(array: Array, axis: int | None) -> Array:
    array = array.astype(np.float64)
    return (
        array.reshape(1, -1) if axis is None else np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    )


def _factors(rows: Array, others: Array, in_order: bool) -> Array | None:
    norms, of_others = (np.sqrt((r**2).sum(1)) for r in (rows, others))
    if np.any((norms == 0) & (of_others > 0)):
        return None
    factors = np.where(norms > 0, norms / np.where(of_others > 0, of_others, 1), 1.0)
    factors = factors * np.where((rows**3).sum(1) * (others**3).sum(1) < 0, -1.0, 1.0)
    scaled = others * factors[:, None]
    if not in_order:
        rows, scaled = np.sort(rows, 1), np.sort(scaled, 1)
    near = np.abs(rows - scaled).max(1) <= NEAR * np.abs(rows).max(1)
    return factors if near.all() else None
