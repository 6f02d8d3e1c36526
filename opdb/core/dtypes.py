"""The element types of QNN tensors and parameters: one table, used by every other part.

``code`` is the value of ``Qnn_DataType_t`` (QnnTypes.h, SDK 2.48.40; unchanged since 2.13.0 for the
types that existed then).  ``short`` is the name used in specs and rules.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DType:
    short: str  # e.g. uq8
    qnn: str  # e.g. UFIXED_POINT_8, without the QNN_DATATYPE_ prefix
    code: int  # e.g. 0x0408
    bits: int  # e.g. 8
    numpy: str | None  # how the elements are stored; e.g. uint8
    quantized: bool = False

    @property
    def macro(self) -> str:
        return f"QNN_DATATYPE_{self.qnn}"

    @property
    def enumerator(self) -> str:
        """The name in the C header; e.g. OPDB_UQ8."""
        return f"OPDB_{self.short.upper()}"


DTYPES: tuple[DType, ...] = (
    DType("i4", "INT_4", 0x0004, 4, None),
    DType("i8", "INT_8", 0x0008, 8, "int8"),
    DType("i16", "INT_16", 0x0016, 16, "int16"),
    DType("i32", "INT_32", 0x0032, 32, "int32"),
    DType("i64", "INT_64", 0x0064, 64, "int64"),
    DType("u4", "UINT_4", 0x0104, 4, None),
    DType("u8", "UINT_8", 0x0108, 8, "uint8"),
    DType("u16", "UINT_16", 0x0116, 16, "uint16"),
    DType("u32", "UINT_32", 0x0132, 32, "uint32"),
    DType("u64", "UINT_64", 0x0164, 64, "uint64"),
    DType("f16", "FLOAT_16", 0x0216, 16, "float16"),
    DType("f32", "FLOAT_32", 0x0232, 32, "float32"),
    DType("f64", "FLOAT_64", 0x0264, 64, "float64"),
    DType("bf16", "BFLOAT_16", 0x0226, 16, "uint16"),
    DType("sq4", "SFIXED_POINT_4", 0x0304, 4, None, True),
    DType("sq8", "SFIXED_POINT_8", 0x0308, 8, "int8", True),
    DType("sq16", "SFIXED_POINT_16", 0x0316, 16, "int16", True),
    DType("sq32", "SFIXED_POINT_32", 0x0332, 32, "int32", True),
    DType("uq4", "UFIXED_POINT_4", 0x0404, 4, None, True),
    DType("uq8", "UFIXED_POINT_8", 0x0408, 8, "uint8", True),
    DType("uq16", "UFIXED_POINT_16", 0x0416, 16, "uint16", True),
    DType("uq32", "UFIXED_POINT_32", 0x0432, 32, "uint32", True),
    DType("bool8", "BOOL_8", 0x0508, 8, "bool"),
    DType("str", "STRING", 0x0608, 8, None),
)

BY_SHORT: dict[str, DType] = {d.short: d for d in DTYPES}
BY_QNN: dict[str, DType] = {d.qnn: d for d in DTYPES}

#: Lists that many specs have, by the name that stands for them there: in rows of types, and under ``kernel``.
LISTS: dict[str, tuple[str, ...]] = {
    name: tuple(text.split())
    for name, text in {
        "any_type": "i4 i8 i16 i32 i64 u4 u8 u16 u32 u64 f16 f32 f64 bf16 sq4 sq8 sq16 sq32 uq4 uq8 uq16 uq32 bool8",
        "any_number": "i4 i8 i16 i32 i64 u4 u8 u16 u32 u64 f16 f32 f64 bf16 sq4 sq8 sq16 sq32 uq4 uq8 uq16 uq32",
        "whole_bytes": "i8 i16 i32 i64 u8 u16 u32 u64 f16 f32 f64 bf16 sq8 sq16 sq32 uq8 uq16 uq32 bool8",
        "real": "f16 f32 bf16 sq8 sq16 uq8 uq16",
        "computed": "f32 f16 bf16 uq8 sq8 uq16 sq16 i32 u32 i8 u8 i16 u16 i64 u64",
        "computed_or_bool": "f32 f16 bf16 uq8 sq8 uq16 sq16 i32 u32 i8 u8 i16 u16 i64 u64 bool8",
    }.items()
}


def lookup(name: str) -> DType | None:
    """The type with this short name, QNN name or QNN macro, or None.  e.g. "uq8", "UFIXED_POINT_8"."""
    return BY_SHORT.get(name) or BY_QNN.get(name.removeprefix("QNN_DATATYPE_"))
