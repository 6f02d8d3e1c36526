"""The price of a candidate's ops as one number, in units of one op's own cost; the selection compares these.

``Modeled`` is the price when nothing was measured.  An op costs 1 (its start, and its entry in the graph), plus 1
for each BYTES that it reads and writes and for each MACS that it multiplies.  A change of layout before or after an op
costs only its bytes: the sinks drop it if the neighbor has the same layout.  Channels last is free: images have that
layout throughout a network with convolutions, and the Transposes stand at the ops that do not take it.  The two constants are
the order of magnitude of a Hexagon v73 to v79 (5 microseconds an op, 50 GB/s, 5e12 products a second), not measurements; they
decide between candidates that differ by whole ops or by several times the work, as the candidates of a family do.

If prices were fitted to a simulation, another ``Prices`` compares: opdb.lower.prices.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Protocol

from opdb.core.dtypes import BY_SHORT
from opdb.runtime.forms import Lowered, LoweredOp, layout_ops
from opdb.runtime.tensors import TensorRef

BYTES = 256 * 1024
MACS = 25_000_000
#: A later candidate has to save at least the cost of one op: the model cannot resolve smaller differences.
MARGIN = 1.0
IMAGES = ((0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 3, 4, 1), (0, 4, 1, 2, 3))


@dataclass(frozen=True)
class Cost:
    """The work of one op: bytes read and written, products, and bytes moved by changes of layout."""

    bytes: int = 0
    macs: int = 0
    layout_bytes: int = 0
    ops: int = 1

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.bytes + other.bytes,
            self.macs + other.macs,
            self.layout_bytes + other.layout_bytes,
            self.ops + other.ops,
        )


class Prices(Protocol):
    """Compares two candidates of a node."""

    def saves(self, new: Lowered, old: Lowered) -> bool:
        """True if ``new`` costs enough less to be taken instead of ``old``, which comes before it."""

    def beyond(self, form: str, ops: tuple[str, ...], old: Lowered) -> bool:
        """True if a candidate with that name and at least these ops can never save anything, so it is not tried."""


@dataclass(frozen=True)
class Modeled:
    bytes_per_op: int = BYTES
    macs_per_op: int = MACS

    def price(self, op: LoweredOp, cost: Cost) -> float:
        return 1.0 + (cost.bytes + cost.layout_bytes) / self.bytes_per_op + cost.macs / self.macs_per_op

    def saves(self, new: Lowered, old: Lowered) -> bool:
        return price_of(new, self) + MARGIN <= price_of(old, self)

    def beyond(self, form: str, ops: tuple[str, ...], old: Lowered) -> bool:
        return len(ops) + MARGIN >= price_of(old, self)  # no op costs less than 1


MODELED = Modeled()


def cost_of(op: LoweredOp) -> Cost:
    """Computes the work of one op from the shapes of its tensors."""
    tensors = [t for t in (*op.inputs, *op.outputs) if t is not None]
    moved = sum(
        2 * nbytes(t)
        for i, t in enumerate((*op.inputs, *op.outputs))
        if t is not None and not t.static
        for change in layout_ops(t, inverse=i >= len(op.inputs))
        if change.op != "Reshape" and not _of_image(change)
    )
    return Cost(sum(map(nbytes, tensors)), macs(op), moved)


def _of_image(change: LoweredOp) -> bool:
    """True if an op is the Transpose of an image, or of a volume, to channels last or back."""
    return change.op == "Transpose" and tuple(change.params[0].value) in IMAGES


def price_of(lowered: Lowered, prices: Modeled = MODELED) -> float:
    """The price of all ops of a candidate."""
    return sum(prices.price(op, cost_of(op)) for op in lowered.ops)


def total(lowered: Lowered) -> Cost:
    """The work of all ops of a candidate."""
    return sum((cost_of(op) for op in lowered.ops), Cost(ops=0))


def nbytes(t: TensorRef) -> int:
    return -(-prod(t.shape) * BY_SHORT[t.dtype].bits // 8)


def macs(op: LoweredOp) -> int:
    """The number of products of an op; 0 if it is not a sum of products."""
    if op.op not in PRODUCTS or not op.outputs:
        return 0
    inputs = [t.shape for t in op.inputs if t is not None]
    return PRODUCTS[op.op](op, inputs)


def _filter(op: LoweredOp, inputs: list[tuple[int, ...]]) -> int:
    """Each element of the result sums over the filter without its last dimension, the channels of the result."""
    return prod(op.outputs[0].shape) * prod(inputs[1][:-1])


def _transposed_filter(op: LoweredOp, inputs: list[tuple[int, ...]]) -> int:
    """Each element of the input is multiplied with the filter without its input channels."""
    return prod(inputs[0]) * prod(inputs[1]) // inputs[1][-2]


def _matrix(op: LoweredOp, inputs: list[tuple[int, ...]]) -> int:
    swapped = any(p.name == "transpose_in0" and p.value for p in op.params)
    return prod(op.outputs[0].shape) * inputs[0][-2 if swapped and len(inputs[0]) > 1 else -1]


def _connected(op: LoweredOp, inputs: list[tuple[int, ...]]) -> int:
    return prod(op.outputs[0].shape) * inputs[1][-1]


PRODUCTS = {
    "Conv1d": _filter,
    "Conv2d": _filter,
    "Conv3d": _filter,
    "DepthWiseConv1d": _filter,
    "DepthWiseConv2d": _filter,
    "TransposeConv1d": _transposed_filter,
    "TransposeConv2d": _transposed_filter,
    "TransposeConv3d": _transposed_filter,
    "MatMul": _matrix,
    "FullyConnected": _connected,
}
