"""Other encodings of a tensor: zero in the middle, another axis, one scale instead of several, ..."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import Quant, TensorConfig


def _middle(dtype: str) -> int:
    """The offset of a symmetric encoding."""
    kind = BY_SHORT[dtype]
    return -(2 ** (kind.bits - 1)) if kind.quantized and kind.qnn.startswith("U") else 0


def encodings(tensor: TensorConfig) -> Iterator[Quant | None]:
    """Encodings that ``tensor`` does not have, the likeliest first; None is no encoding."""
    found = dict.fromkeys(_encodings(tensor))
    found.pop(tensor.quant, None)
    yield from found


def _encodings(tensor: TensorConfig) -> Iterator[Quant | None]:
    quant, kind = tensor.quant, BY_SHORT[tensor.dtype]
    if not kind.quantized:
        yield None
        return
    middle = _middle(tensor.dtype)
    if quant is None:
        yield Quant("SCALE_OFFSET", (1.0,), (middle,))  # whatever the values are, the scale follows from them
        return
    scale = max(quant.scale, default=1.0)
    several = max(len(quant.scale), 1)
    if quant.encoding in ("SCALE_OFFSET", "AXIS_SCALE_OFFSET", "BW_SCALE_OFFSET", "BW_AXIS_SCALE_OFFSET"):
        yield replace(quant, offset=(middle,) * several)
        if quant.axis is not None:
            for axis in range(len(tensor.shape)):
                yield _along(quant, axis, tensor.shape[axis])
    lowest = 0 if kind.qnn.startswith("U") else -(2 ** (kind.bits - 1))
    yield Quant("SCALE_OFFSET", (scale,), quant.offset[:1] or (0,))
    yield Quant("SCALE_OFFSET", (scale,), (middle,))
    for axis in reversed(range(len(tensor.shape))):
        yield _along(Quant("AXIS_SCALE_OFFSET", (scale,), (middle,)), axis, tensor.shape[axis])
    if kind.bits <= 16:
        yield Quant("SCALE_OFFSET", (2.0**-kind.bits,), (-lowest,))  # [0, 1)
        yield Quant("SCALE_OFFSET", (2.0 ** (1 - kind.bits),), (middle,))  # [-1, 1)


def _along(quant: Quant, axis: int, size: int) -> Quant:
    """The encoding along another axis; if that has another size, every slice has the largest scale."""
    if len(quant.scale) == size and len(quant.offset) in (0, size):
        return replace(quant, axis=axis)
    size = min(size, 65536)
    offset = (quant.offset[0],) * size if len(set(quant.offset)) == 1 else (0,) * size
    return replace(quant, axis=axis, scale=(max(quant.scale, default=1.0),) * size, offset=offset)


def reencoded(quant: Quant | None, before: str, after: str) -> Quant | None:
    """The encoding for another data type over the same real numbers; None for a type without encodings.

    Also None if the tensor had no encoding (a float becomes quantized): its numbers are not known here.
    """
    a, b = BY_SHORT[before], BY_SHORT[after]
    if not b.quantized:
        return None
    if quant is None or not a.quantized:
        return None
    count = max(len(quant.scale), len(quant.offset))
    if quant.bits is not None or quant.blocks is not None or quant.vector is not None:
        return replace(quant, offset=(_middle(after),) * len(quant.offset))
    if quant.symmetric(before):
        factor = 2.0 ** (a.bits - b.bits)
        return replace(
            quant, scale=tuple(s * factor for s in quant.scale), offset=(_middle(after),) * len(quant.offset)
        )
    low_a, low_b = (0 if k.qnn.startswith("U") else -(2 ** (k.bits - 1)) for k in (a, b))
    factor = (2**a.bits - 1) / (2**b.bits - 1)
    offsets = quant.offset or (0,) * count
    return replace(
        quant,
        scale=tuple(s * factor for s in quant.scale),
        offset=tuple(round((low_a + o) / factor) - low_b for o in offsets),
    )
