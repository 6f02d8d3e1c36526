"""``torch.ops.opdb.dequantize_blocks``: an integer weight with a scale for each block along one dimension.

PT2E has no operator for blocks.  PyTorch decomposes this one; opdb.programs.torch reads it as an encoding if QNN has one.
"""

from __future__ import annotations

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("opdb", "FRAGMENT")
_LIBRARY.define(
    "dequantize_blocks(Tensor x, Tensor scale, int axis, int block_size, int quant_min, int quant_max) -> Tensor"
)


def _dequantize(
    x: Tensor, scale: Tensor, axis: int, block_size: int, quant_min: int, quant_max: int
) -> Tensor:
    """x [..., n, ...] times ``scale`` [..., n / block_size, ...]; the last block may be shorter."""
    spread = scale.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])
    return x.to(scale.dtype) * spread


_LIBRARY.impl("dequantize_blocks", _dequantize, "CompositeImplicitAutograd")
dequantize_blocks = torch.ops.opdb.dequantize_blocks.default
