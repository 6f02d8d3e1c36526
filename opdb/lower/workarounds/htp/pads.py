"""Pads in a form that HTP computes correctly: elements after the last dimension are joined to x by a Concat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from opdb.lower.workarounds.surroundings import Facts
from opdb.runtime.forms import LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import TensorRef, full, intermediate, stored_range


def by_concat(op: LoweredOp, facts: Facts) -> Sequence[LoweredOp] | None:
    """A Concat, after a Pad of the other dimensions if these are padded."""
    return list(_joined(op, facts.number))


def _joined(op: LoweredOp, number: int) -> Iterator[LoweredOp]:
    x, y = op.inputs[0], op.outputs[0]
    assert x is not None
    given = {p.name: p.value for p in op.params}
    *others, (_, behind) = zip(given["pad_amount"][::2], given["pad_amount"][1::2], strict=True)
    if any(before or after for before, after in others):
        inner = intermediate(f"padded_{number}", [*y.shape[:-1], x.shape[-1]], x)
        amounts = tensor_param("pad_amount", "u32", [*others, (0, 0)])
        params = tuple(amounts if p.name == "pad_amount" else p for p in op.params)
        yield replace(op, params=params, outputs=(inner,))
        x = inner
    end = _filled([*y.shape[:-1], behind], given.get("pad_constant_value", 0.0), x)
    yield lowered_op(
        "Concat", inputs={"xs": [x, end]}, params=[scalar("axis", "u32", x.rank - 1)], outputs={"y": y}
    )


def _filled(shape: Sequence[int], value: float, x: TensorRef) -> TensorRef:
    """A constant of ``value``; if ``x`` is quantized, in its encoding, as near as possible."""
    if x.quant is None:
        return full(shape, value, x)
    low, high = stored_range(x)
    steps = round(min(max(value, low), high) / x.scale) - x.offset
    return replace(full(shape, steps, x), quant=x.quant)
