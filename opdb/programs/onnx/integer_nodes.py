"""Nodes that move or compare stored integers: with an encoding that the file says, they are of quantized tensors.

In the form QOperator, ONNX Runtime's quantizer lets MaxPool, Reshape and their like read the integers as they are.
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
#: Where an operator has scale and zero point of its result.
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
    """What the file says of the results of a node; ``known``: of its inputs."""
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
    """``operator`` between what its stored input stands for and the result as stored integers.

    Its last two inputs are ``encoding``.
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
        lacking = max((0, *operator.known)) + 1 - len(given)  # behind inputs whose places are known
        return node, [*given, *[None] * lacking, encoding.scale, encoding.zero]

    return Operator(computed, operator.known, prepare)


def reads_stored(proto: onnx.NodeProto, given: list[Any]) -> bool:
    x = given[0] if given else None
    return proto.op_type in OF_STORED and isinstance(x, Tensor) and x.dtype in RANGES
