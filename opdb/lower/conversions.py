"""Explains why a conversion to integers of fewer bits is not supported."""

from __future__ import annotations

from opdb.runtime.forms import NodeView, Reason
from opdb.runtime.tensors import Rejection

CONVERSIONS = (
    "aten._to_copy.default", "aten.to.device", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other", "aten.type_as.default",
)  # fmt: skip
#: Integers of fewer than 32 bits: their name in PyTorch, smallest and largest value.
SMALL = {
    "u8": ("uint8", 0, 255), "i8": ("int8", -128, 127), "u16": ("uint16", 0, 65535), "i16": ("int16", -32768, 32767),
}  # fmt: skip
LARGER = {
    "i32": "integers", "i64": "integers", "u32": "integers", "f16": "floats", "f32": "floats", "bf16": "floats",
}  # fmt: skip


def into_fewer_bits(view: NodeView) -> Reason | None:
    """The reason, with the fix, if a conversion reads numbers that may not fit its result type; else None."""
    if view.target not in CONVERSIONS:
        return None
    try:
        read, made = view.arg("self").dtype, view.result(0).dtype
    except Rejection:
        return None
    if made not in SMALL or (read not in LARGER and not _smaller(read, made)):
        return None
    name, least, most = SMALL[made]
    what = LARGER.get(read, "integers")
    why = f"{what} may not fit {name}, where QNN does not wrap around as PyTorch does"
    return Reason("", "", f"{why}: put .clamp({least}, {most}) before the conversion, or return the {what}")


def _smaller(read: str, made: str) -> bool:
    """True if some values of one small integer type do not fit in the other."""
    if read not in SMALL or read == made:
        return False
    return not (SMALL[made][1] <= SMALL[read][1] and SMALL[read][2] <= SMALL[made][2])
