"""The encoding of a tensor's stored integers, the same for all file formats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opdb.core.names import counted

Array = np.ndarray[Any, Any]
#: The bits that QNN's activations and weights may have.
BITS = (4, 8, 16)


@dataclass(frozen=True)
class Encoding:
    """Scales and zero points, one or one per channel, of unsigned stored integers of ``bits``: real = (stored - zero) * scale.

    ``axis``: the channel dimension; None if the file does not give it.  ``block``: 0, or the number of neighboring elements along the
    other of the first two dimensions that share a scale (LPBQ): the channel's scale times an integer of ``steps`` [channels, blocks].
    """

    bits: int
    scales: Array
    zeros: Array
    axis: int | None = None
    block: int = 0
    steps: Array | None = None

    @property
    def symmetric(self) -> bool:
        """True if real zero is the middle of the stored integers."""
        return bool(np.all(self.zeros == 1 << self.bits - 1))

    def check(self) -> None:
        """Raises ValueError for values that no encoding of stored integers can have."""
        if not self.scales.size or not np.all(np.isfinite(self.scales) & (self.scales > 0)):
            raise ValueError("a scale is no number above 0")
        if self.zeros.size not in (1, self.scales.size):
            raise ValueError(f"it has {counted(self.scales.size, 'scale')} and {self.zeros.size} zero points")
        if np.any((self.zeros < 0) | (self.zeros >= 1 << self.bits)):
            raise ValueError(f"a zero point is not among the stored integers of {self.bits} bits")
        if self.steps is None:
            return
        if not self.symmetric:
            raise ValueError("QNN's blocks have their zero in the middle, and its zero points are not there")
        if self.block < 1 or np.any(self.steps < 1):
            raise ValueError("a block's size or integer is no whole number above 0")
