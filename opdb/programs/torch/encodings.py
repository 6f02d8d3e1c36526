"""Reads the quantize and dequantize nodes that PT2E writes (quantized_decomposed) as encodings.

A tensor that only a quantize node reads gets that node's encoding, and readers of a dequantize node get the stored integers
with their encoding: neither node is an op then.  The others are QNN's Quantize and Dequantize, which convert floats to integers
and back, at the ends of the program and around nodes that stay in floats.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from opdb.core.op_config import Blocks, Quant
from opdb.lower.quantize.conventions import PYTORCH, QNN, Encoding, converted

#: A tensor: the name of the node whose result it is, and the result's index.
Key = tuple[str, int]
#: QNN's short name of the stored integers, and their encoding.
Encoded = tuple[str, Quant]
#: (smallest, largest) stored value -> QNN's data type and the number of significant bits
STORED: dict[tuple[Any, Any], tuple[str, int | None]] = {
    (0, 255): ("uq8", None), (-128, 127): ("sq8", None), (-127, 127): ("sq8", None),
    (0, 65535): ("uq16", None), (-32768, 32767): ("sq16", None), (-32767, 32767): ("sq16", None),
    (-(2**31), 2**31 - 1): ("sq32", None), (0, 15): ("uq8", 4), (-8, 7): ("sq8", 4), (-7, 7): ("sq8", 4),
    # 4 bits minus zero points, times 8; 2 bits minus zero points; 2 bits.
    (-120, 120): ("sq8", None), (-3, 3): ("sq8", None), (-2, 1): ("sq8", 2),
}  # fmt: skip
#: Prefixes of the targets of quantize nodes, then of dequantize nodes.
CONVERSIONS = (
    "quantized_decomposed.quantize_per_tensor.", "quantized_decomposed.quantize_per_channel.",
    "quantized_decomposed.dequantize_per_tensor.", "quantized_decomposed.dequantize_per_channel.",
    "opdb.dequantize_blocks.",
)  # fmt: skip
#: Targets that clip values.  Their input can have the encoding of their result: clipped to its range, the result is the same.
CUTTING = frozenset({
    "aten.clamp.default", "aten.clamp_min.default", "aten.hardtanh.default", "aten.relu.default", "aten.relu6.default",
})  # fmt: skip
#: Targets whose bias is a sum of products of their first two tensors.
WITH_BIAS = frozenset({
    "aten.conv1d.default", "aten.conv1d.padding", "aten.conv2d.default", "aten.conv2d.padding", "aten.conv3d.default",
    "aten.conv3d.padding", "aten.convolution.default", "aten.linear.default",
})  # fmt: skip
#: Like WITH_BIAS, with the filters along the second dimension of the weight.
TRANSPOSED = frozenset({
    "aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input",
})  # fmt: skip

#: The largest integer of a block, and the relative error allowed between a scale and a multiple of the channel's.
STEPS, EXACT = 16, 1e-5


class Unknown(Exception):
    """An encoding that opdb does not read."""


def is_quantize(node: Any) -> bool:
    return _is(node, CONVERSIONS[:2])


def is_dequantize(node: Any) -> bool:
    return _is(node, CONVERSIONS[2:])


def _is(node: Any, targets: tuple[str, ...]) -> bool:
    return isinstance(node, Node) and str(node.target).startswith(targets)


def _tensor(node: Node) -> Node:
    source = node.args[0]
    assert isinstance(source, Node)
    return source


def _as_integers(node: Node) -> bool:
    """True if something computes with the stored integers as plain integers."""
    return any(u.op == "call_function" and not is_dequantize(u) for u in node.users)


def arguments(node: Node) -> dict[str, Any]:
    """The given arguments of a call by their names in the schema."""
    schema = node.target._schema.arguments
    return {a.name: v for a, v in zip(schema, node.args, strict=False)} | dict(node.kwargs)


def stored_type(given: Mapping[str, Any]) -> tuple[str, int | None]:
    """QNN's type of the integers, and the number of significant bits if it is smaller, else None.  Raises Unknown."""
    ends = (given.get("quant_min"), given.get("quant_max"))
    if ends not in STORED:
        raise Unknown(f"the stored range {ends}")
    return STORED[ends]


def encoding(node: Node, numbers: Callable[[Any], tuple[float, ...]]) -> Encoded:
    """The type and encoding of the integers of a quantize or dequantize node.

    ``numbers``: returns the values of scales or zero points, which are numbers or nodes.  Raises Unknown, as ``numbers`` may.
    """
    given = arguments(node)
    dtype, bits = stored_type(given)
    scales = numbers(given.get("scale", given.get("scales")))
    if "block_size" in given:
        return dtype, in_blocks(scales, given["scale"].meta["val"].shape, given["axis"])
    zeros = numbers(given.get("zero_point", given.get("zero_points")))
    offsets = tuple(converted(Encoding(dtype, 1.0, int(z), PYTORCH), QNN)[0].offset for z in zeros)
    prefix = "BW_" if bits else ""
    axis = given.get("axis")
    if axis is None:
        return dtype, Quant(f"{prefix}SCALE_OFFSET", scales, offsets, bits=bits)
    axis = int(axis) % len(node.meta["val"].shape)
    return dtype, Quant(f"{prefix}AXIS_SCALE_OFFSET", scales, offsets, axis, bits)


def real(stored: torch.Tensor, quant: Quant) -> torch.Tensor:
    """The float32 values of stored integers; integers in blocks are returned as they are."""
    if quant.blocks is not None:
        return stored
    scale, offset = (torch.tensor(v, dtype=torch.float64) for v in (quant.scale, quant.offset))
    if quant.axis is not None:
        along = [1] * stored.dim()
        along[quant.axis] = -1
        scale, offset = scale.reshape(along), offset.reshape(along)
    return ((stored.double() + offset) * scale).float().reshape(stored.shape)


def in_blocks(scales: Sequence[float], shape: Sequence[int], axis: int) -> Quant:
    """The encoding of scales [..., blocks, ...], the blocks along ``axis``, channels along the other of the first two dimensions.

    QNN's scale of a block is a 4-bit integer times the channel's scale.  Raises Unknown for other scales.
    """
    if axis not in (0, 1) or any(n != 1 for n in shape[2:]):
        raise Unknown("blocks along a dimension that QNN has none along")
    rows = np.array(scales, np.float64).reshape(shape[:2])
    rows = rows.T if axis == 0 else rows
    largest, whole = rows.max(1), np.zeros(rows.shape, int)
    for most in range(STEPS, 0, -1):  # HTP is most accurate with the largest integers, as in the recipes
        steps = rows / (largest / most)[:, None]
        near = (np.abs(steps - np.rint(steps)) < EXACT * np.rint(steps)).all(1)
        new = near & ~whole.any(1)
        whole[new] = np.rint(steps[new]).astype(int)
    if whole.all():
        blocks = Blocks(rows.shape[1], STEPS.bit_length() - 1, tuple(whole.flatten().tolist()))
        found = tuple((largest / whole.max(1)).astype(np.float32).tolist())
        return Quant("BLOCKWISE_EXPANSION", found, (0,) * len(found), 1 - axis, blocks=blocks)
    raise Unknown("scales of blocks that are not whole multiples of one for each channel")


@dataclass
class Encodings:
    """The encodings of a program's tensors, found node by node in its order.

    ``in_floats``: names of nodes that read and write floats even if tensors around them are quantized.  ``same``: targets whose
    result is their argument.
    """

    values: Mapping[Key, torch.Tensor]
    in_floats: Collection[str] = ()
    same: Collection[str] = ()
    of: dict[Key, Encoded] = field(default_factory=dict)
    #: The tensor that readers of a node get, if it is not the node's own float result.
    operands: dict[Node, Key] = field(default_factory=dict)

    def quantize(self, node: Node, origin: Callable[[Node], Key]) -> bool | None:
        """Reads a quantize node; True if it stays an op, None if QNN has no type for it or its integers are used as plain integers."""
        found = self._read(node, origin)
        if found is None or _as_integers(node):
            return None
        source = _tensor(node)
        key = origin(source)
        if key not in self.values and self._alone(source, found, origin):
            self.of[key] = found
            self.operands[node] = key
            return False
        self.of[node.name, 0] = found
        return key not in self.values

    def dequantize(self, node: Node, origin: Callable[[Node], Key]) -> bool | None:
        """Reads a dequantize node; True if its floats are needed, None if its integers cannot be read as quantized."""
        if (found := self._read(node, origin)) is None:
            return None
        source = _tensor(node)
        key = self.operands.get(source) or origin(source)
        given = key in self.values or source.op == "placeholder"
        if key not in self.of and (not given or _as_integers(source)):
            return None
        if self.of.setdefault(key, found) != found:
            return None
        self.operands[node] = key
        return any(self.takes_floats(u) for u in node.users)

    def before_cutting(self, nodes: Iterable[Node], origin: Callable[[Node], Key]) -> None:
        """Gives a tensor that only a clipping node reads the encoding of that node's result."""
        for node in reversed(list(nodes)):
            source = node.args[0] if node.args else None
            if (
                str(node.target) in CUTTING
                and isinstance(source, Node)
                and source.op == "call_function"
                and len(source.users) == 1
                and source.name not in self.in_floats
                and not is_dequantize(source)
                and origin(source)[0] == source.name
                and (found := self.of.get(origin(node))) is not None
            ):
                self.of.setdefault(origin(source), found)

    def alias(self, node: Node, source: Node) -> None:
        """Makes ``node`` the same as ``source`` for readers of integers, too."""
        if source in self.operands:
            self.operands[node] = self.operands[source]

    def _numbers(self, value: Any, origin: Callable[[Node], Key]) -> tuple[float, ...]:
        if isinstance(value, (int, float)):
            return (float(value),)
        if isinstance(value, Node) and (key := origin(value)) in self.values and not self.values[key].is_meta:
            return tuple(float(v) for v in self.values[key].flatten().tolist())
        raise Unknown("an encoding that is computed")

    def _alone(self, source: Node, found: Encoded, origin: Callable[[Node], Key]) -> bool:
        """True if an op makes ``source`` and only quantize nodes with this encoding read it."""
        maker = source.args[0] if source.target is operator.getitem else source
        if (
            not isinstance(maker, Node)
            or maker.op != "call_function"
            or maker.name in self.in_floats
            or origin(source)[0] != maker.name
            or is_quantize(maker)
            or is_dequantize(maker)
        ):
            return False
        return all(is_quantize(u) and self._read(u, origin) == found for u in source.users)

    def _read(self, node: Node, origin: Callable[[Node], Key]) -> Encoded | None:
        """The encoding of a quantize or dequantize node; None if it is computed or QNN has no type for it."""
        try:
            return encoding(node, lambda v: self._numbers(v, origin))
        except Unknown:
            return None

    def takes_floats(self, user: Node) -> bool:
        if str(user.target) in self.same:
            return any(map(self.takes_floats, user.users))
        other = user.op != "call_function" or not isinstance(user.target, torch._ops.OpOverload)
        return other or user.name in self.in_floats or is_quantize(user)
