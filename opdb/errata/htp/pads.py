"""Pads of floats in a form that HTP computes rightly.

Behind another op HTP 2.47 leaves elements after the last dimension alone as memory had them, or finalizes no graph (Pad.H8):
they are joined to x instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from opdb.runtime.lowering import Lowered, LoweredOp, lowered_op, scalar, tensor_param
from opdb.runtime.tensors import full, intermediate

BEHIND = "Pad.H8"


def mended(lowered: Lowered, broken: Callable[[LoweredOp], Collection[str]]) -> Lowered:
    """``lowered`` with such pads as a Concat, after a Pad of the other dimensions; ``broken`` gives the rules that an op breaks."""
    if all(op.op != "Pad" for op in lowered.ops):
        return lowered
    return replace(lowered, ops=tuple(_ops(lowered.ops, broken)))


def _ops(ops: tuple[LoweredOp, ...], broken: Callable[[LoweredOp], Collection[str]]) -> Iterator[LoweredOp]:
    for number, op in enumerate(ops):
        if op.op == "Pad" and BEHIND in broken(op):
            yield from _joined(op, number)
        else:
            yield op


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
    end = full([*y.shape[:-1], behind], given.get("pad_constant_value", 0.0), x)
    yield lowered_op(
        "Concat", inputs={"xs": [x, end]}, params=[scalar("axis", "u32", x.rank - 1)], outputs={"y": y}
    )
