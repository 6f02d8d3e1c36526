"""The conventions of QNN and other formats for the meaning of a stored integer.

Each has a scale, and a number for the integer that stands for zero; they differ in its sign, and QHPI in the integers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError


@dataclass(frozen=True)
class Convention:
    """``sign``: the sign of the offset in real = scale * (stored + sign * offset)."""

    name: str
    formula: str
    sign: int
    source: str
    unsigned: bool = False  # signed integers are given with half of the range added


QNN = Convention("QNN", "scale * (stored + offset)", 1, "QnnTypes.h 2.36.0, Qnn_ScaleOffset_t")
QHPI = Convention(
    "QHPI", "step * (stored - zero)", -1, "probe HTP 2.47.0 2.51.0: between ops of a graph", unsigned=True
)
ONNX = Convention("ONNX", "scale * (stored - zero_point)", -1, "ONNX operators 1.18, DequantizeLinear")
PYTORCH = Convention(
    "PyTorch", "scale * (stored - zero_point)", -1, "quantized_decomposed.dequantize_per_tensor"
)
CLOUD_AI = Convention("Cloud AI", "scale * (stored - offset)", -1, "Cloud AI SDK 1.17, Custom operations")
CONVENTIONS = (QNN, QHPI, ONNX, PYTORCH, CLOUD_AI)


@dataclass(frozen=True)
class Encoding:
    """An encoding with one scale.  ``dtype``: short name of QNN's type of the integers, e.g. sq8.  ``offset``: in this convention."""

    dtype: str
    scale: float
    offset: int
    convention: Convention = QNN

    def real(self, stored: int) -> float:
        """The real number that a stored integer stands for."""
        return self.scale * (stored + self.convention.sign * self.offset)

    @property
    def added(self) -> int:
        """The number that the convention adds to the integers of the type."""
        kind = BY_SHORT[self.dtype]
        if not kind.quantized:
            raise OpdbError(f"{kind.qnn} is not a quantized type")
        signed = kind.qnn.startswith("S")
        return 2 ** (kind.bits - 1) if signed and self.convention.unsigned else 0


def converted(encoding: Encoding, convention: Convention) -> tuple[Encoding, int]:
    """The encoding in another convention, and the number to add to each stored integer.

    Raises OpdbError for a type that is not quantized.
    """
    made = replace(encoding, convention=convention)
    zero = -encoding.convention.sign * encoding.offset  # the integer that stands for 0
    added = made.added - encoding.added
    return replace(made, offset=-convention.sign * (zero + added)), added
