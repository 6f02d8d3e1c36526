"""Names the types that a node computes in, e.g. "uq16, weights of sq8"."""

from __future__ import annotations

from collections.abc import Iterable

from opdb.core.op_config import Quant
from opdb.runtime.forms import LoweredOp

#: Words for a weight with fewer bits than its type, and for one in blocks.
NARROW, BLOCKS = "{} bits", "4 bits in blocks"
#: Ops that only convert: a node computes in the types of the others.
CONVERSIONS = frozenset({"Convert", "Quantize", "Dequantize"})


def types_of(ops: Iterable[LoweredOp]) -> str:
    """Names the type of the results of ``ops`` and that of their quantized weights; "" for no op."""
    made = [op for op in ops if op.op not in CONVERSIONS] or list(ops)
    if not made:
        return ""
    weights = [
        weight_text(t.dtype, t.quant)
        for op in made
        for t in op.inputs
        if t is not None and t.static and t.quant is not None and _has_channels(t.quant)
    ]
    return text((t.dtype for t in made[-1].outputs), weights)


def text(results: Iterable[str], weights: Iterable[str]) -> str:
    """Joins the types of the results and the words for weights, each once."""
    kinds, of_weights = (" and ".join(dict.fromkeys(words)) for words in (results, weights))
    return f"{kinds}, weights of {of_weights}" if of_weights else kinds


def weight_text(dtype: str, quant: Quant | None) -> str:
    """Names a weight's type, or its bits if they are fewer than the type's."""
    if quant is not None and quant.blocks is not None:
        return BLOCKS
    return NARROW.format(quant.bits) if quant is not None and quant.bits else dtype


def _has_channels(quant: Quant) -> bool:
    return quant.axis is not None or bool(quant.bits)
