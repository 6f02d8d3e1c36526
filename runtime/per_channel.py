"""Stores per-channel factors as an integer filter with one scale per channel.

A quantized tensor times a constant per channel, plus a constant per channel, is a 1 by 1 DepthWiseConv2d.  Each factor has
its own scale and is exact, whereas a single scale for all of them would lose the small ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from opdb.core.op_config import Quant
from opdb.runtime.static import made_values, transformed
from opdb.runtime.tensors import Rejection, TensorRef, Transform

#: The largest shift in steps of its scale.  Up to HTP v69, a DepthWiseConv2d of 8 bits and two taps loses shifts of
#: 2**26 and more (QNN 2.47 on SM8350 and SM8450); 2**22 and 2**30 are equally exact elsewhere.
LARGEST_SHIFT = 2**22
PER_CHANNEL = "AXIS_SCALE_OFFSET"


def floats(t: TensorRef) -> TensorRef:
    """The dequantized values of the static tensor ``t``, as f32; ``t`` itself if it is not quantized."""
    if t.quant is None:
        return t
    if not t.static or t.transforms or t.encoding not in ("SCALE_OFFSET", PER_CHANNEL):
        raise Rejection(f"a constant with the encoding {t.encoding}")
    step = Transform("dequantize", (t.quant.scale, t.quant.offset, t.axis))
    return replace(t, dtype="f32", quant=None, transforms=(step,))


def channel_filter(factor: TensorRef, shift: TensorRef, x: TensorRef) -> TensorRef:
    """``factor`` [C] as an sq8 filter [1, 1, 1, C] with one scale per channel.

    Each factor is -127, 0, or 127 times its scale, unless ``shift`` [C], in steps of that scale times the scale of ``x``,
    would exceed LARGEST_SHIFT: then the scale is larger.
    """
    factors, shifts = numbers(factor), numbers(shift)
    scales = np.maximum(np.abs(factors) / 127, np.abs(shifts) / (x.scale * LARGEST_SHIFT))
    scales = np.where(scales > 0, scales, 1.0).astype(np.float32)
    stored = np.rint(factors / scales)
    quant = Quant(PER_CHANNEL, tuple(scales.tolist()), (0,) * scales.size, axis=3)
    return _made((1, 1, 1, scales.size), "sq8", stored, quant)


def channel_bias(shift: TensorRef, x: TensorRef, filter: TensorRef) -> TensorRef:
    """``shift`` [C] as the sq32 bias of a convolution of ``x`` with ``filter``, with the scales of the products."""
    if filter.quant is None:
        raise Rejection("a filter without an encoding")
    scales = (np.array(filter.quant.scale) * x.scale).astype(np.float32)
    if not scales.all():
        raise Rejection("products too small for a scale in float32")
    quant = Quant(PER_CHANNEL, tuple(scales.tolist()), (0,) * scales.size, axis=0)
    return _made((scales.size,), "sq32", np.rint(numbers(shift) / scales), quant)


def numbers(t: TensorRef) -> np.ndarray[Any, Any]:
    """The values of a static tensor after its transforms, in float64.  Raises Rejection if unknown or not finite."""
    found = transformed(_origin(t), t.transforms, _origin).astype(np.float64)
    if not np.isfinite(found).all():
        raise Rejection("a factor that is infinite or no number")
    return found


def _origin(t: TensorRef) -> np.ndarray[Any, Any]:
    """The values of ``t`` before its transforms."""
    if t.made:
        return made_values(t)
    values = None if t.values is None else t.values()
    if values is None:
        raise Rejection("a factor whose value is not known here")
    return np.asarray(values)


def _made(shape: tuple[int, ...], dtype: str, stored: np.ndarray[Any, Any], quant: Quant) -> TensorRef:
    return TensorRef(shape, dtype, static=True, data=tuple(stored.tolist()), quant=quant, base_shape=shape)
