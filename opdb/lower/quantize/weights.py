"""Weights: how many bits a recipe gives them, and the encoding that fits their numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from opdb.core.op_config import Blocks, Quant
from opdb.lower.quantize.encodings import OF_ZEROS, SMALLEST, of_data
from opdb.runtime.qnn.real_numbers import BLOCK_BITS

Array = np.ndarray[Any, Any]
#: The largest ratio of a block's scale to the channel's (QNN: 4 bits; ExecuTorch's and AIMET's LPBQ have 1 to 16).
LARGEST_STEP = 16
#: How far a number may be from its grid, in steps: float32 and the passes that multiply weights leave an error of about 1e-6.
ON_GRID = 1e-4


@dataclass(frozen=True)
class WeightType:
    """The type of constants with channels.

    ``dtype``: short name of the type that stores them.  ``bits``: the bits used, if fewer than the type's.
    ``per_channel``: a scale for each output channel, if the target has that.  ``block``: input channels that share a scale,
    0 for all.
    """

    dtype: str = "sq8"
    bits: int | None = None
    per_channel: bool = True
    block: int = 0

    def divides(self, shape: Sequence[int], axis: int | None) -> bool:
        """True if the channels of a weight of ``shape`` make whole blocks; HTP takes blocks of 1-by-1 filters only (HTP-0006)."""
        if axis is None or not self.block:
            return False
        beside = axis - 1 if axis else 1
        others = math.prod(n for d, n in enumerate(shape) if d not in (axis, beside))
        return others == 1 and shape[beside] % self.block == 0

    @property
    def wider(self) -> WeightType:
        """This type with all bits of its dtype, and without blocks."""
        return replace(self, bits=None, block=0)

    @property
    def text(self) -> str:
        """A description, e.g. 4 bits in blocks of 32."""
        return f"{self.bits or 8} bits" + (f" in blocks of {self.block}" if self.block else "")


IN_8_BITS = WeightType()


def narrowed(quant: Quant, weight: WeightType) -> Quant:
    """Marks ``quant`` for fewer bits or for blocks, as QNN writes them; with one block per channel, and unchanged scales."""
    if weight.bits is None:
        return quant
    if weight.block:
        one = (1,) * len(quant.scale)
        return replace(quant, encoding="BLOCKWISE_EXPANSION", blocks=Blocks(1, BLOCK_BITS, one))
    return replace(quant, encoding=f"BW_{quant.encoding}", bits=weight.bits)


def of_weight(data: Array, dtype: str, symmetric: bool, axis: int | None, weight: WeightType) -> Quant:
    """The encoding that fits ``data`` best, with a scale per slice along ``axis`` if that is not None."""
    if weight.bits is None:
        return of_data(data, dtype, symmetric, axis)
    if weight.block and axis is not None:
        return in_blocks(data, axis, weight.block)
    rows = data.reshape(1, -1) if axis is None else np.moveaxis(data, axis, 0).reshape(data.shape[axis], -1)
    scales = _float32(_steps(rows.astype(np.float64), 2 ** (weight.bits - 1)))
    kind = "SCALE_OFFSET" if axis is None else "AXIS_SCALE_OFFSET"
    return narrowed(Quant(kind, scales, (0,) * len(scales), axis), weight)


def _steps(rows: Array, half: int) -> Array:
    """The step of each row: the largest number is ``half`` - 1 steps, unless all numbers lie on another grid of -half to half - 1.

    So weights that another tool has rounded (AdaRound, training) are stored as they are.
    """
    largest = np.abs(rows).max(1)
    chosen = largest / (half - 1)
    for count in (*range(1, half - 1), half, half - 1):
        steps = np.where(largest > 0, largest, 1.0) / count
        found = rows / steps[:, None]
        whole = np.rint(found)
        fits = (np.abs(found - whole).max(1) < ON_GRID) & (whole.max(1) < half) & (largest > 0)
        chosen = np.where(fits, steps, chosen)
    return np.asarray(chosen)


def in_blocks(data: Array, axis: int, block: int) -> Quant:
    """4 bits with a scale per ``block`` elements along the dimension beside ``axis``: an integer times the scale of the slice.

    Of the two integers next to a block's ideal scale, takes the one with the smaller error.  Of the integers with these
    ratios they are the largest, as in files (opdb.programs.torch.encodings).
    """
    beside = axis - 1 if axis else 1
    rows = np.moveaxis(data.astype(np.float64), (axis, beside), (0, 1)).reshape(data.shape[axis], -1, block)
    wanted = np.abs(rows).max(2) / (2 ** (BLOCK_BITS - 1) - 1)
    channel = np.array(_float32(wanted.max(1) / LARGEST_STEP))
    steps = wanted / channel[:, None]
    options = [np.clip(f(steps), 1, LARGEST_STEP) for f in (np.floor, np.ceil)]
    errors = [_error(rows, (channel[:, None] * o)[:, :, None]) for o in options]
    chosen = np.where(errors[0] < errors[1], options[0], options[1]).astype(int)
    common = np.gcd.reduce(chosen, 1)
    larger = LARGEST_STEP // (chosen.max(1) // common)  # the same scales, with the largest integers
    chosen = chosen // common[:, None] * larger[:, None]
    channel = np.array(_float32(channel * common / larger))
    blocks = Blocks(rows.shape[1], BLOCK_BITS, tuple(chosen.flatten().tolist()))
    return Quant("BLOCKWISE_EXPANSION", tuple(channel.tolist()), (0,) * len(channel), axis, blocks=blocks)


def _error(rows: Array, scale: Array) -> Array:
    """The sum of squared errors of each block."""
    whole = np.clip(np.rint(rows / scale), -(2 ** (BLOCK_BITS - 1)), 2 ** (BLOCK_BITS - 1) - 1)
    return np.asarray(((whole * scale - rows) ** 2).sum(2))


def _float32(scales: Array) -> tuple[float, ...]:
    """Scales as QNN stores them."""
    held = np.where(scales > 0, np.maximum(scales, SMALLEST), OF_ZEROS).astype(np.float32)
    return tuple(map(float, held))
