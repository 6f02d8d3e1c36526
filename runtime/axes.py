"""The encoding of a tensor that is moved: its axis goes where the slices go that each have a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

from opdb.core.op_config import Quant

#: Encodings of one scale for all elements, whose order does not matter.
OF_TENSOR = ("SCALE_OFFSET", "BW_SCALE_OFFSET")
#: Encodings of one scale for each slice along an axis.
OF_AXIS = ("AXIS_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET")


def permuted(quant: Quant, perm: Sequence[int]) -> Quant:
    """``quant`` of a tensor whose dimension ``perm[i]`` is now at place i."""
    if quant.axis is not None:
        quant = replace(quant, axis=list(perm).index(quant.axis))
    if quant.block_size:
        quant = replace(quant, block_size=tuple(quant.block_size[p] for p in perm))
    return quant


def reshaped(quant: Quant, before: Sequence[int], after: Sequence[int]) -> Quant | None:
    """``quant`` of a tensor of the shape ``before`` that takes the shape ``after``, row-major, of as many elements.

    None where the slices that each have a scale are no slices along one dimension of ``after``.  An encoding in blocks is
    kept only where nothing but dimensions of size 1 comes or goes.
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
    """``quant`` of a tensor that is repeated ``multiples[i]`` times along dimension i; None for one in blocks."""
    if quant.encoding in OF_TENSOR:
        return quant
    if quant.encoding not in OF_AXIS or quant.axis is None:
        return None
    times = multiples[quant.axis]
    return replace(quant, scale=quant.scale * times, offset=quant.offset * times)


def _place(before: Sequence[int], axis: int, after: Sequence[int]) -> int | None:
    """The dimension of ``after`` that is the dimension ``axis`` of ``before``.

    Of several, which then have size 1, the one with as many dimensions behind it, or the nearest to that.
    """
    in_front = [*accumulate(before, mul, initial=1)]
    in_front_after = [*accumulate(after, mul, initial=1)]
    fits = [i for i, size in enumerate(after) if size == before[axis] and in_front_after[i] == in_front[axis]]
    behind = len(before) - axis
    return min(fits, key=lambda i: abs(len(after) - i - behind), default=None)


def _large(shape: Sequence[int]) -> list[int]:
    return [d for d in shape if d != 1]
