"""Nodes computed in floating point between a Dequantize and a Quantize that HTP gets wrong or cannot finalize."""

from __future__ import annotations

from collections.abc import Sequence

from opdb.runtime.forms import LoweredOp

CONVERSIONS = ("Dequantize", "Quantize")
FLOAT = "f32"
#: Ops that move values and compute none.  HTP fuses them with the conversions around them into ops on quantized tensors.
MOVES = frozenset({"Pad", "StridedSlice", "Reshape", "Transpose"})
#: Ops whose graphs HTP finalizes for v68 if they stand alone between conversions of 8 and of 16 bits, with correct
#: numbers (probe SM8350: each sample, and each row of types); it finalizes few graphs with several such ops in a row.
ALONE_ON_V68 = frozenset({
    "Batchnorm", "Conv2d", "DepthWiseConv2d", "ElementWiseAbs", "ElementWiseAdd", "ElementWiseCeil", "ElementWiseCos",
    "ElementWiseDivide", "ElementWiseExp", "ElementWiseFloor", "ElementWiseLog", "ElementWiseMaximum",
    "ElementWiseMinimum", "ElementWiseMultiply", "ElementWiseNeg", "ElementWisePower", "ElementWiseRsqrt",
    "ElementWiseSign", "ElementWiseSin", "ElementWiseSquareRoot", "ElementWiseSquaredDifference",
    "ElementWiseSubtract", "FullyConnected", "GridSample", "HardSwish", "LogSoftmax", "Lrn", "MatMul", "PoolAvg2d",
    "PoolAvg3d", "PoolMax2d", "Prelu", "Relu", "Relu1", "Relu6", "Resize", "ResizeBilinear", "ResizeNearestNeighbor", "ScatterNd",
})  # fmt: skip


#: Ops that give wrong results on v68 directly after a Dequantize.
WRONG_ON_V68 = frozenset({"DepthWiseConv2d", "PoolMax2d", "TransposeConv2d"})


def pads(form: Sequence[LoweredOp], ops: Sequence[LoweredOp]) -> bool:
    """True if it only moves values and pads after the last dimension and another one: HTP fills in the smallest number there."""
    kinds = {op.op for op in ops} - set(CONVERSIONS)
    return kinds <= MOVES and any(_behind_and_elsewhere(op) for op in ops if op.op == "Pad")


def _behind_and_elsewhere(pad: LoweredOp) -> bool:
    *others, before, behind = next(p.value for p in pad.params if p.name == "pad_amount")
    return not before and bool(behind) and any(others)


def more_than_one(form: Sequence[LoweredOp], ops: Sequence[LoweredOp]) -> bool:
    """True unless it is a single op of ``ALONE_ON_V68`` between its conversions."""
    inside = [op.op for op in form if op.op not in CONVERSIONS and any(t.dtype == FLOAT for t in op.outputs)]
    stored = [t for op in form if op.op == "Quantize" for t in op.outputs]
    moved = any(t.transforms for op in form for t in op.outputs if t.dtype == FLOAT)
    # HTP fuses a Quantize with such a Reshape after it
    joined = any((len(t.shape) == 5) != (len(t.base_shape) == 5) for t in stored)
    return len(inside) != 1 or inside[0] not in ALONE_ON_V68 or moved or joined


def wrong_behind_dequantize(form: Sequence[LoweredOp], ops: Sequence[LoweredOp]) -> bool:
    """True if it has an op of ``WRONG_ON_V68``."""
    return any(op.op in WRONG_ON_V68 for op in form)
