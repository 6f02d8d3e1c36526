"""Nodes that no row of quantized types fits: in floats if the chip has them, or as the whole numbers that they store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from opdb.catalog.targets.target import Target
from opdb.core.graph import GraphOp, QnnGraph
from opdb.core.op_config import OpConfig, Quant, TensorConfig
from opdb.judge.errata.policy import active, refuses
from opdb.judge.errata.records import RECORDS
from opdb.judge.validate import check
from opdb.lower.quantize.encodings import Range
from opdb.lower.quantize.slots import places
from opdb.lower.workarounds.htp.conversions import WRONG_ON_V68
from opdb.runtime.qnn.real_numbers import limits

REAL = ("f32", "f16")
#: The encoding in which a stored number is the value.
WHOLE = Quant("SCALE_OFFSET", (1.0,), (0,))
#: Types that hold whole numbers, the fewest bits first.
HOLDING = ("uq8", "sq8", "uq16", "sq16")
#: Faults for values that calibration did not show: sums beyond the range of the result, a divisor of 0.
UNSEEN = ("HTP-0202", "HTP-0325", "HTP-0326")
NO_NUMBERS = "it copies stored numbers, which are the values at scale 1 only, and the chip has no floating point to convert them in"
CONVERTED = "the op copies stored numbers, so they are converted in floats"


def computes(graph: QnnGraph, op: GraphOp, target: Target, faultless: bool = False) -> bool:
    """True if ``target`` accepts the node of a float graph as it is; a chip without floating point accepts none.

    ``faultless``: see ``avoided``.
    """
    if op.op in WRONG_ON_V68 and active("HTP-0450", target):
        return False
    return _accepted(graph.op_config(op), target, faultless)


@lru_cache(256)
def converts(source: str, result: str, target: Target) -> bool:
    """True if ``target`` has a Convert between two quantized types."""
    x, y = (
        TensorConfig("", t, (1, 8), "NATIVE", quant=Quant("SCALE_OFFSET", (0.5,), (0,)))
        for t in (source, result)
    )
    return _accepted(OpConfig("Convert", inputs=(x,), outputs=(y,)), target)


def avoided(erratum: str, target: Target, faultless: bool = False) -> bool:
    """True if a form with the erratum must not be used; ``faultless``: also if other forms are only preferred."""
    if faultless and RECORDS[erratum].effect == "wrong-result" and erratum not in UNSEEN:
        return active(erratum, target)
    return refuses(erratum, target)


def reads_numbers(graph: QnnGraph, op: GraphOp) -> bool:
    """True if the node copies stored numbers between real tensors and whole numbers or truth values, e.g. a Cast."""
    real = {graph.tensors[p.tensor].dtype in REAL for p in places(op) if p.stored}
    return len(real) == 2


def holding(graph: QnnGraph, op: GraphOp, ranges: Mapping[str, Range], target: Target) -> str:
    """The type in which a ``reads_numbers`` node may write its whole numbers at scale 1; "" for none."""
    values = ranges.get(op.outputs[0], Range())
    config = graph.op_config(op)
    if graph.tensors[op.outputs[0]].dtype not in REAL:
        return ""
    for dtype in HOLDING:
        low, high = limits(dtype)
        written = replace(config.outputs[0], dtype=dtype, quant=WHOLE)
        if (
            low <= values.low
            and values.high <= high
            and _accepted(replace(config, outputs=(written,)), target)
        ):
            return dtype
    return ""


def _accepted(config: OpConfig, target: Target, faultless: bool = False) -> bool:
    verdict = check(config, target)
    return verdict.verdict == "accept" and not any(
        v.erratum and avoided(v.erratum, target, faultless) for v in verdict.violations
    )
