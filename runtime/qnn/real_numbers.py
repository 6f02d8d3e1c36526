"""Real numbers as a graph's inputs and outputs: quantizes inputs, dequantizes outputs.

QNN's convention: real = (q + offset) * scale, with the scale in float32 (Qnn_ScaleOffset_t, QnnTypes.h).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.graph import GraphTensor
from opdb.core.names import counted, plural
from opdb.core.op_config import Blocks, ConfigError, Quant

Array = np.ndarray[Any, Any]
ENCODINGS = (
    "SCALE_OFFSET", "AXIS_SCALE_OFFSET", "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET", "BLOCKWISE_EXPANSION",
)  # fmt: skip
#: The bits of an integer in a block encoding; QNN stores it in 8.
BLOCK_BITS = 4


def to_stored(tensor: GraphTensor, values: Any, where: str = "") -> Any:
    """Converts real ``values`` to the form a graph reads; ``where`` names the tensor in errors.

    Quantized types: the nearest value, ties to even, saturated at the limits of the type (infinities too);
    exact for float32 values and types of 8 and 16 bits.  For other types, values are returned unchanged.
    Raises ConfigError for NaN, another shape, and a tensor without an encoding.
    """
    if not BY_SHORT[tensor.dtype].quantized:
        return values
    where = where or f"tensor {tensor.name}"
    real = np.asarray(values)
    if real.dtype.kind not in "fiu":
        raise ConfigError(f"{where}: real numbers are wanted, got {real.dtype}")
    if real.shape != tensor.shape:
        raise ConfigError(
            f"{where}: values of shape {list(real.shape)} do not fill the shape {list(tensor.shape)}"
        )
    if np.isnan(real).any():
        raise ConfigError(f"{where}: NaN has no quantized value")
    return quantized(real, tensor.dtype, encoding_of(tensor, where), where)


def to_real(tensor: GraphTensor, stored: Array, where: str = "") -> Array:
    """Converts ``stored`` values to real numbers: float32 for 16-bit floats and quantized types, else unchanged.

    Raises ConfigError for a quantized tensor without an encoding.
    """
    if tensor.dtype == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if not BY_SHORT[tensor.dtype].quantized:
        return stored.astype(np.float32) if tensor.dtype == "f16" else stored
    where = where or f"tensor {tensor.name}"
    scale, offset = _affine(encoding_of(tensor, where), tensor.shape, where)
    return np.asarray(((stored.astype(np.float64) + offset) * scale).astype(np.float32))


def quantized(real: Array, dtype: str, quant: Quant, where: str) -> Array:
    """Real values, without NaN, as stored values of a quantized type (short name)."""
    scale, offset = _affine(quant, real.shape, where)
    bits = BLOCK_BITS if quant.blocks is not None else quant.bits
    low, high = limits(dtype) if bits is None else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    whole = np.rint(real.astype(np.float64) / scale) - offset
    return np.asarray(np.clip(whole, low, high).astype(BY_SHORT[dtype].numpy))


def limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest stored value of a quantized type (short name)."""
    kind = BY_SHORT[dtype]
    if kind.qnn.startswith("U"):
        return 0, 2**kind.bits - 1
    return -(2 ** (kind.bits - 1)), 2 ** (kind.bits - 1) - 1


def encoding_of(tensor: GraphTensor, where: str) -> Quant:
    """The encoding of a quantized tensor.  Raises ConfigError if it has none: no scale is ever assumed."""
    if tensor.quant is None:
        raise ConfigError(f"{where}: {tensor.dtype} without an encoding; give it a scale and an offset")
    return tensor.quant


def _affine(quant: Quant, shape: tuple[int, ...], where: str) -> tuple[Array, Array]:
    """Scale and offset in float64, with shapes that broadcast with ``shape``."""
    if quant.encoding not in ENCODINGS:
        raise ConfigError(
            f"{where}: opdb converts {' and '.join(ENCODINGS)}, not {quant.encoding}; pass stored values"
        )
    scale = np.asarray(quant.scale, np.float32).astype(np.float64)
    offset = np.asarray(quant.offset or (0,) * len(quant.scale), np.float64)
    if scale.shape != offset.shape or not scale.size or not (np.isfinite(scale) & (scale > 0)).all():
        raise ConfigError(f"{where}: an encoding has positive scales and an offset for each, got {quant}")
    if quant.encoding in ("SCALE_OFFSET", "BW_SCALE_OFFSET"):
        return scale[:1].reshape(()), offset[:1].reshape(())
    axis = quant.axis or 0
    if axis >= len(shape) or shape[axis] != scale.size:
        raise ConfigError(
            f"{where}: {counted(scale.size, 'scale')} along axis {axis} {plural(scale.size, 'does', 'do')} not fit the shape {list(shape)}"
        )
    along = [1] * len(shape)
    along[axis] = -1
    if quant.blocks is not None:
        return _in_blocks(scale, quant.blocks, axis, shape), np.zeros(())
    return scale.reshape(along), offset.reshape(along)


def _in_blocks(scale: Array, blocks: Blocks, axis: int, shape: tuple[int, ...]) -> Array:
    """The scale of each element: blocks run along dimension ``axis`` - 1, or along 1 if ``axis`` is 0."""
    beside = axis - 1 if axis else 1
    steps = scale[:, None] * np.asarray(blocks.scales, np.float64).reshape(scale.size, blocks.per_axis)
    spread = np.repeat(steps, shape[beside] // blocks.per_axis, 1)  # [slices, elements along `beside`]
    along = [1] * len(shape)
    along[axis], along[beside] = spread.shape
    return (spread if axis < beside else spread.T).reshape(along)
