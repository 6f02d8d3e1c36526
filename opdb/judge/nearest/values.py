"""Other values of a parameter that the definition allows, the nearest numbers first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import ParamConfig
from opdb.runtime.binding import Param

Shapes = Sequence[tuple[int, ...]]
Between = tuple[int, int, Callable[[int], ParamConfig]]
OMITTED = (math.inf,)
FLOATS = ("f16", "f32", "f64", "bf16")


@dataclass(frozen=True)
class Value:
    param: ParamConfig | None  # None: omitted
    distance: tuple[float, ...]
    between: Between | None = None


def fitting(was: ParamConfig | None, slot: Param, shapes: Shapes, floats: Sequence[float]) -> Iterator[Value]:
    """Values that the parameter may take instead, in a form that the definition allows."""
    if was is not None and not slot.required:
        yield Value(None, (0,) if slot.dtype in FLOATS else OMITTED)
    if was is None or was.dtype != slot.dtype or not _shaped(was.shape, slot.dims):
        for order, value in enumerate(_formed(was, slot, shapes)):
            yield Value(value, (order,))
        return
    if was.shape is not None:
        yield from _tensor(was, shapes, floats)
    elif slot.enum:
        yield from (_scalar(was, v, abs(v - was.value)) for v in slot.enum if v != was.value)
    elif slot.dtype == "bool8":
        yield _scalar(was, not was.value, 1)
    elif slot.dtype in FLOATS:
        yield from (_scalar(was, v, abs(v - was.value)) for v in _floats(was.value, floats))
    elif slot.dtype != "str":
        for v in _integers(was.value, slot.dtype, shapes):
            between = (was.value, v, lambda n: ParamConfig(was.name, was.dtype, n))
            yield Value(ParamConfig(was.name, was.dtype, v), (abs(v - was.value),), between)


def _shaped(shape: tuple[int, ...] | None, dims: tuple[int | None, ...]) -> bool:
    shape = shape or ()
    return len(shape) == len(dims) and all(d in (None, s) for d, s in zip(dims, shape, strict=True))


def _scalar(was: ParamConfig, value: Any, distance: float) -> Value:
    return Value(ParamConfig(was.name, was.dtype, value), (distance,))


def _range(dtype: str) -> tuple[int, int]:
    """The integers of ``dtype`` that an op config can hold."""
    bits = BY_SHORT[dtype].bits
    unsigned = BY_SHORT[dtype].qnn.startswith("U")
    low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return low, min(high, 2**63 - 1)


def _integers(value: int, dtype: str, shapes: Shapes) -> list[int]:
    """Integers near ``value``, small ones, dimensions and their divisors, and ever farther ones."""
    low, high = _range(dtype)
    found = {*range(value - 8, value + 9), *range(9)}
    for d in {d for s in shapes for d in s}:
        found |= {d, *(n for n in range(2, min(d, 64) + 1) if d % n == 0)}
    for step in range(1, 33):
        found |= {value >> step, value << step, 8 << step}
    return sorted((n for n in found - {value} if low <= n <= high), key=lambda n: (abs(n - value), n))


def _floats(value: float, others: Sequence[float]) -> list[float]:
    """Floats that a rule may ask for instead: the other sign, 0, 1, powers of ten times the value, those of other parameters."""
    found = {-value, 0.0, 1.0, -1.0, 0.5, 1e-5, 255.0, *others}
    found |= {value * 10.0**n for n in range(-6, 7) if n}
    usable = {v for v in found if math.isfinite(v) and v != value}
    return sorted(usable, key=lambda v: (abs(v - value) if math.isfinite(value) else abs(v), v))


def _formed(was: ParamConfig | None, slot: Param, shapes: Shapes) -> Iterator[ParamConfig]:
    """The value in the data type and shape of the definition, or values for a missing one."""
    if was is not None:
        numbers = [was.value] if was.shape is None else list(was.value)
        cast = [v for n in numbers if (v := _cast(n, slot)) is not None]
        if len(cast) == len(numbers):
            for shape in _shapes(slot.dims, len(cast), shapes):
                size = math.prod(shape or (1,))
                if cast or not size:
                    flat = (cast * size)[:size] if len(cast) == 1 else (cast + cast[-1:] * size)[:size]
                    yield _made(slot, flat, shape)
    for value in _usual(slot, shapes):
        for shape in _shapes(slot.dims, None, shapes):
            yield _made(slot, [value] * math.prod(shape or (1,)), shape)


def _cast(value: Any, slot: Param) -> Any:
    """``value`` in the data type of the definition; None if it is not a number."""
    if (
        slot.dtype == "str"
        or isinstance(value, str)
        or (isinstance(value, float) and not math.isfinite(value))
    ):
        return None
    if slot.enum:
        return min(slot.enum, key=lambda v: (abs(v - value), v))
    if slot.dtype == "bool8":
        return bool(value)
    if slot.dtype in FLOATS:
        return float(value)
    low, high = _range(slot.dtype)
    return min(max(round(value), low), high)


def _usual(slot: Param, shapes: Shapes) -> list[Any]:
    if slot.enum:
        return list(slot.enum)
    if slot.dtype == "bool8":
        return [False, True]
    if slot.dtype in FLOATS:
        return [0.0, 1.0]
    return [] if slot.dtype == "str" else list(range(max([len(s) for s in shapes] or [0]) + 1))


def _shapes(dims: tuple[int | None, ...], count: int | None, shapes: Shapes) -> list[tuple[int, ...] | None]:
    """The shapes that ``count`` values may take; an open length follows from the count, or is 1 or the rank of a tensor."""
    if not dims:
        return [None]
    if None not in dims:
        return [tuple(d or 0 for d in dims)]
    fixed = math.prod(d for d in dims if d is not None)
    lengths = [1, *dict.fromkeys(len(s) for s in shapes)]
    if count is not None and fixed and count % fixed == 0:
        lengths.insert(0, count // fixed)
    return [tuple(n if d is None else d for d in dims) for n in dict.fromkeys(lengths)]


def _made(slot: Param, flat: Sequence[Any], shape: tuple[int, ...] | None) -> ParamConfig:
    return ParamConfig(slot.name, slot.dtype, flat[0] if shape is None else tuple(flat), shape)


def _tensor(was: ParamConfig, shapes: Shapes, floats: Sequence[float]) -> Iterator[Value]:
    """Other lists: one number (or all equal ones) changed, cut, filled up, sorted, brought into range."""
    assert was.shape is not None
    integer = was.dtype not in FLOATS and was.dtype not in ("bool8", "str")
    yield from _with_other_numbers(was, shapes, floats, integer)
    if integer and len(was.shape) == 1:
        yield from _of_other_length(was, shapes)
    if len(was.shape) == 2:
        yield from _with_other_rows(was, shapes, integer)


def _with_other_numbers(
    was: ParamConfig, shapes: Shapes, floats: Sequence[float], integer: bool
) -> Iterator[Value]:
    """Changes one number, or all that are equal to it."""
    old = tuple(was.value)
    for equal in ({i for i, v in enumerate(old) if v is n or v == n} for n in dict.fromkeys(old)):
        v = old[min(equal)]
        numbers = _others(v, was.dtype, shapes, floats, integer)
        for places in [equal] if len(equal) == 1 else [{i} for i in sorted(equal)] + [equal]:
            for n in numbers:
                make = _replacing(was, places)
                apart = abs(n - v) if n - v == n - v else math.inf  # from NaN
                distance = (float(len(places)), apart * len(places))
                yield Value(make(n), distance, (v, n, make) if integer else None)


def _others(v: Any, dtype: str, shapes: Shapes, floats: Sequence[float], integer: bool) -> Sequence[Any]:
    """The numbers to try instead of ``v``."""
    if integer:
        return [n for n in _integers(v, dtype, shapes) if _small(n, v, shapes)]
    if dtype == "bool8":
        return [not v]
    return [] if dtype == "str" else _floats(v, floats)


def _of_other_length(was: ParamConfig, shapes: Shapes) -> Iterator[Value]:
    """A list of integers cut, filled up, sorted, or brought into range."""
    old = tuple(was.value)
    seen = {old}
    for flat in _lists(old, shapes):
        if flat not in seen:
            seen.add(flat)
            yield Value(ParamConfig(was.name, was.dtype, flat, (len(flat),)), _apart(old, flat))


def _with_other_rows(was: ParamConfig, shapes: Shapes, integer: bool) -> Iterator[Value]:
    """A matrix with one row for each dimension of a tensor, cut or filled up with zeros."""
    assert was.shape is not None
    old, width = tuple(was.value), was.shape[1]
    for rows in dict.fromkeys(len(s) for s in shapes):
        if rows != was.shape[0]:
            flat = (old + (0 if integer else 0.0,) * (rows * width))[: rows * width]
            yield Value(ParamConfig(was.name, was.dtype, flat, (rows, width)), _apart(old, flat))


def _replacing(was: ParamConfig, places: set[int]) -> Callable[[Any], ParamConfig]:
    def make(n: Any) -> ParamConfig:
        flat = tuple(n if i in places else v for i, v in enumerate(was.value))
        return ParamConfig(was.name, was.dtype, flat, was.shape)

    return make


def _small(n: int, v: int, shapes: Shapes) -> bool:
    """True if a number is worth trying as one of many in a list."""
    return abs(n - v) <= 3 or 0 <= n <= 2 or n == v >> 1 or any(n in s or n == len(s) - 1 for s in shapes)


def _lists(old: tuple[int, ...], shapes: Shapes) -> Iterator[tuple[int, ...]]:
    ranks = list(dict.fromkeys(len(s) for s in shapes if s))
    for i in range(len(old)):
        yield old[:i] + old[i + 1 :]
    yield tuple(dict.fromkeys(old))
    yield tuple(sorted(set(old)))
    for rank in ranks:
        fixed = [tuple(min(max(v, 0), rank - 1) for v in old), tuple(v % rank for v in old)]
        for flat in fixed:
            yield flat
            yield tuple(dict.fromkeys(flat))
        for n in range(rank):
            yield (n,)
            yield (*old, n)
        yield tuple(range(rank))
        yield tuple(reversed(range(rank)))
        yield (old + (1,) * rank)[:rank]
        if rank <= 4 and len(old) == rank:
            yield from permutations(range(rank))
    yield from shapes


def _apart(a: Sequence[Any], b: Sequence[Any]) -> tuple[float, ...]:
    """The number of elements that differ, and the sum of their differences."""
    pairs = [(x, y) for x, y in zip(a, b, strict=False) if x != y]
    return float(abs(len(a) - len(b)) + len(pairs)), float(sum(abs(x - y) for x, y in pairs))
