"""Nodes that move or compare stored integers, read as nodes of quantized tensors if the file gives the encoding.

In its QOperator format, ONNX Runtime's quantizer lets MaxPool, Reshape and similar operators read the integers directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from torch import Tensor

from opdb.programs.onnx.node import Node, Operator, Value
from opdb.programs.onnx.operators.quantized import RANGES, dequantize, quantize

#: Results whose elements are elements of the first input, or lie between them.
OF_STORED = frozenset({
    "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Resize", "Slice", "Split", "Squeeze", "Tile",
    "Transpose", "Unsqueeze",
})  # fmt: skip
#: The places of the inputs with the scale and zero point of an operator's result.
ENCODINGS = {
    "QGemm": (7, 8), "QLinearAdd": (6, 7), "QLinearAveragePool": (3, 4), "QLinearConcat": (0, 1), "QLinearConv": (6, 7),
    "QLinearGlobalAveragePool": (3, 4), "QLinearLeakyRelu": (3, 4), "QLinearMatMul": (6, 7), "QLinearMul": (6, 7),
    "QLinearReduceMean": (3, 4), "QLinearSigmoid": (3, 4), "QLinearSoftmax": (3, 4), "QLinearWhere": (7, 8),
    "QuantizeLinear": (1, 2),
}  # fmt: skip


@dataclass(frozen=True)
class Encoding:
    """One scale and zero point for all of a tensor."""

    scale: Any
    zero: Any


def said(proto: onnx.NodeProto, values: Mapping[str, Any], known: Mapping[str, Encoding]) -> Encoding | None:
    """The encoding that the file gives for the results of a node; ``known``: the encodings of its inputs."""
    if proto.op_type in OF_STORED:
        return known.get(next(iter(proto.input), ""))
    places = ENCODINGS.get(proto.op_type)
    if places is None or len(proto.input) <= places[1]:
        return None
    scale, zero = (values.get(proto.input[i]) for i in places)
    if isinstance(scale, np.ndarray) and isinstance(zero, np.ndarray) and scale.size == 1:
        return Encoding(scale, zero)
    return None


def between(operator: Operator, encoding: Encoding) -> Operator:
    """Wraps ``operator``: dequantizes its first input, computes, and quantizes the results with the same ``encoding``.

    The last two inputs are the scale and zero point of ``encoding``.
    """

    def computed(node: Node, x: Tensor, *more: Any) -> Any:
        *rest, scale, zero = more
        encoded = node.having(encoded=True)
        made = operator.function(node, dequantize(encoded, x, scale, zero), *rest)
        if isinstance(made, (tuple, list)):
            return tuple(quantize(encoded, m, scale, zero) for m in made)
        return quantize(encoded, made, scale, zero)

    def prepare(node: Node, given: list[Value]) -> tuple[Node, list[Value]]:
        if operator.prepare is not None:
            node, given = operator.prepare(node, given)
        lacking = max((0, *operator.known)) + 1 - len(given)  # scale and zero must not be at known places
        return node, [*given, *[None] * lacking, encoding.scale, encoding.zero]

    return Operator(computed, operator.known, prepare)


def reads_stored(proto: onnx.NodeProto, given: list[Any]) -> bool:
    x = given[0] if given else None
    return proto.op_type in OF_STORED and isinstance(x, Tensor) and x.dtype in RANGES
