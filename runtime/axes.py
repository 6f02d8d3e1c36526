"""Adjusts a tensor's encoding when its layout changes: the axis follows the slices that have separate scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from opdb.core.op_config import Quant

#: Encodings with one scale for all elements, independent of their order.
OF_TENSOR = ("SCALE_OFFSET", "BW_SCALE_OFFSET")
#: Encodings with one scale for each slice along an axis.
OF_AXIS = ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET")


def permuted(quant: Quant, perm: Sequence[int]) -> Quant:
    """``quant`` after the tensor's dimension ``perm[i]`` moves to position i."""
    if quant.axis is not None:
        quant = replace(quant, axis=list(perm).index(quant.axis))
    if quant.block_size:
        quant = replace(quant, block_size=tuple(quant.block_size[p] for p in perm))
    return quant


def reshaped(quant: Quant, before: Sequence[int], after: Sequence[int]) -> Quant | None:
    """``quant`` after a row-major reshape from ``before`` to ``after``, with the same number of elements.

    None if the slices with separate scales are not slices along one dimension of ``after``.  A block encoding is kept
    only if nothing but dimensions of size 1 is added or removed.
    """
    if quant.encoding in OF_TENSOR:
        return quant
    if quant.encoding not in OF_AXIS and _large(before) != _large(after):
        return None
    if quant.block_size:
        sizes = iter([b for d, b in zip(before, quant.block_size, strict=True) if d != 1])
        quant = replace(quant, block_size=tuple(1 if d == 1 else next(sizes) for d in after))
    if quant.axis is None:
        return quant
    axis = _place(before, quant.axis, after)
    if axis is not None:
        return replace(quant, axis=axis)
    if quant.encoding in OF_AXIS and before[quant.axis] == 1:
        return replace(quant, encoding=quant.encoding.replace("AXIS_", ""), axis=None)
    return None


def tiled(quant: Quant, multiples: Sequence[int]) -> Quant | None:
    """``quant`` after the tensor is repeated ``multiples[i]`` times along dimension i; None for a block encoding."""
    if quant.encoding in OF_TENSOR:
        return quant
    if quant.encoding not in OF_AXIS or quant.axis is None:
        return None
    times = multiples[quant.axis]
    return replace(quant, scale=quant.scale * times, offset=quant.offset * times)


def _place(before: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """The dimension of ``after`` that corresponds to dimension ``axis`` of ``before``; None if there is none.

    If several match (all of size 1), returns the one with the closest number of dimensions behind it.
    """
    in_front = [*accumulate(before, mul, initial=1)]
    in_front_after = [*accumulate(after, mul, initial=1)]
    fits = [i for i, size in enumerate(after) if size == before[axis] and in_front_after[i] == in_front[axis]]
    behind = len(before) - axis
    return min(fits, key=lambda i: abs(len(after) - i - behind), default=None)


def _large(shape: Sequence[int]) -> list[int]:
    return [d for d in shape if d != 1]
