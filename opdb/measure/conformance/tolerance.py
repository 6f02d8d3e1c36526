"""Decides how far a result may be from PyTorch's: the only place where numbers are called equal.

float32: the spec's ULP expression, or its absolute floor.  float16 (also HTP's float16 for float32 graphs):
see HALF.  Quantized: STEPS.  Whole numbers and truth values: equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.expressions import Reader, reader
from opdb.runtime.binding import Context
from opdb.spec.catalog import Catalog

Array = np.ndarray[Any, Any]
#: The tolerance of an op whose spec states none: a few roundings of float32.
DEFAULT_ULP, DEFAULT_ABS = 16, 1e-6
#: float16: eight units in the last place of the result, or one of the largest result in the tensor, for sums
#: whose terms cancel.  HTP rounds inputs, tables of functions, intermediate and final results to 11 bits each;
#: 584 runs of 2.47 for SM8650 came to 6 and 2.1 of these (hard swish, softmax).
HALF_ULP, HALF_OF_LARGEST = 8, 2.0**-9
#: For ops that only move data: HTP's way from float32 through float16 and back adds a unit of float32.
HALF_EXACT = 2.0**-22
#: Quantized: one step for the rounding of the result, one for an integer multiplier instead of the scales;
#: 16 bits also 2**-12 of the range, which is the precision of HTP's products of 16 bits (17.6 steps were seen).
STEPS, STEPS_OF_RANGE = 2.0, 2.0**-12


@dataclass(frozen=True)
class Comparison:
    """``error_max`` in real units; ``ulp`` in units of the last place (float) or quantization steps."""

    matches: bool
    error_max: float = 0.0
    ulp: float = 0.0
    magnitude: float = 0.0  # of PyTorch's number at the largest ``ulp``, in real units
    detail: str = ""  # the worst element, if they differ


@dataclass(frozen=True)
class Bounds:
    """The spec's tolerance of one float type, for one config."""

    ulp: float
    absolute: float


@lru_cache(maxsize=512)
def _reader(catalog: Catalog, op: str) -> Reader:
    compiled = catalog.compiled(op)
    return reader(compiled, compiled.tolerance)


def bounds(catalog: Catalog, config: OpConfig) -> Mapping[str, Bounds]:
    """The spec's tolerances, by data type."""
    ulp = _reader(catalog, config.op)(config, Context())
    stated = catalog.ops[config.op].tolerance
    return {t: Bounds(float(u), stated[t].abs) for t, u in ulp.items() if u is not None}


def compare(
    config: OpConfig,
    expected: Sequence[Array],
    got: Sequence[Array],
    allowed: Mapping[str, Bounds],
    half: bool = False,
) -> Comparison:
    """``expected``: real values by PyTorch; ``got``: outputs as stored.  ``half``: f32 was computed in f16."""
    each = [
        _compare(tensor, want, have, allowed, half)
        for tensor, want, have in zip(config.outputs, expected, got, strict=True)
    ]
    worst = max(each, key=lambda c: c.ulp, default=Comparison(True))
    return Comparison(
        all(c.matches for c in each),
        max((c.error_max for c in each), default=0.0),
        worst.ulp,
        worst.magnitude,
        next((c.detail for c in each if c.detail), ""),
    )


def _compare(
    tensor: TensorConfig, want: Array, stored: Array, allowed: Mapping[str, Bounds], half: bool
) -> Comparison:
    if tuple(want.shape) != tuple(stored.shape):
        return Comparison(
            False, float("inf"), float("inf"), 0.0, f"{tensor.name}: shape {stored.shape}, not {want.shape}"
        )
    have = data.real(stored, tensor)
    if have.dtype.kind in "iub":
        off = np.asarray(have != want)
        difference = np.abs(have.astype(np.float64) - want.astype(np.float64))
        return _result(tensor, want, have, off, difference, difference)
    want = want.astype(np.float64)
    limit = allowed.get("f32", Bounds(DEFAULT_ULP, DEFAULT_ABS))
    exact = limit == Bounds(0.0, 0.0)  # data is moved, not computed
    if BY_SHORT[tensor.dtype].quantized:
        low, high = (data.real(np.asarray(v), tensor) for v in data.limits(tensor))
        want = np.clip(want, low, high)
        difference = np.abs(have - want)
        unit = np.broadcast_to(data.step(tensor), want.shape)
        steps = STEPS + STEPS_OF_RANGE * 2 ** BY_SHORT[tensor.dtype].bits
        room = (0.5 if exact else steps) * unit
    elif half or tensor.dtype in ("f16", "bf16"):
        difference = _difference(have, want)
        unit = np.spacing(np.minimum(np.abs(want), 2**15).astype(np.float16)).astype(np.float64)
        largest = float(np.max(np.abs(want), initial=0.0))
        room = np.maximum(HALF_ULP * unit, HALF_OF_LARGEST * largest)
        if exact:
            room = HALF_EXACT * np.abs(want)
    else:
        difference = _difference(have, want)
        unit = np.spacing(np.abs(want).astype(np.float32)).astype(np.float64)
        room = np.maximum(limit.ulp * unit, limit.absolute)
    with np.errstate(invalid="ignore"):
        off = (difference != 0) & ~(difference <= room)
        units = np.where(difference == 0, 0.0, difference / unit)
        return _result(tensor, want, have, off, difference, units)


def _difference(have: Array, want: Array) -> Array:
    """The absolute difference; zero if both are the same infinity or both NaN."""
    with np.errstate(invalid="ignore"):
        same = (have == want) | (np.isnan(have) & np.isnan(want))
        return np.where(same, 0.0, np.abs(have - want))


def _result(
    tensor: TensorConfig, want: Array, have: Array, off: Array, difference: Array, units: Array
) -> Comparison:
    if not difference.size:
        return Comparison(True)
    largest, most = (float(np.max(np.nan_to_num(v, nan=np.inf, posinf=np.inf))) for v in (difference, units))
    magnitude = float(
        np.abs(want.astype(np.float64)).ravel()[int(np.argmax(np.nan_to_num(units, nan=np.inf)))]
    )
    if not off.any():
        return Comparison(True, largest, most, magnitude)
    at = np.unravel_index(
        int(np.argmax(np.where(off, np.nan_to_num(difference, nan=np.inf, posinf=np.inf), -1.0))), off.shape
    )
    place = ", ".join(map(str, at))
    detail = f"{tensor.name}[{place}]: {have[at]:.9g}, PyTorch {want[at]:.9g}; {int(off.sum())} of {off.size} differ"
    return Comparison(False, largest, most, magnitude, detail)
