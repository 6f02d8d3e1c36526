"""Joins batch norms with the preceding convolutions with quantized weights: the tensor between them has no encoding.

The norm's factor for a channel goes into the channel's scale, so the stored integers stay the same or change their sign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from opdb.programs.onnx.node import Array
from opdb.programs.onnx.subgraphs import reads

#: Suffix of the tensor names of a weight with a norm folded in.
NORMED = "/normed"
#: ONNX's default.
EPSILON = 1e-5


def join(made: list[onnx.NodeProto | None], outputs: Sequence[str], values: dict[str, Any]) -> None:
    """Replaces each such BatchNormalization by a Conv; adds the Conv's scales, integers and bias to ``values``."""
    nodes = [n for n in made if n is not None]
    if not any(n.op_type == "BatchNormalization" for n in nodes):
        return
    readers = Counter([*outputs, *(n for node in nodes for n in reads(node))])
    makers = {o: place for place, n in enumerate(made) if n is not None for o in n.output}
    quantized = {n.input[0] for n in nodes if n.op_type == "QuantizeLinear"}
    for place, norm in enumerate(made):
        if norm is None or norm.op_type != "BatchNormalization" or norm.output[0] not in quantized:
            continue
        at = makers.get(norm.input[0], -1)
        conv = made[at] if at >= 0 else None
        if conv is None or conv.op_type != "Conv" or readers[norm.input[0]] > 1:
            continue
        of_weight = makers.get(conv.input[1], -1)
        weight = made[of_weight] if of_weight >= 0 else None
        if weight is None or weight.op_type != "DequantizeLinear" or readers[conv.input[1]] > 1:
            continue
        bias = _normed(conv, norm, weight, values)
        if bias is None:
            continue
        made[of_weight] = _reading(weight, [n + NORMED for n in weight.input[:2]], list(weight.output))
        made[at] = None
        joined = _reading(conv, [*conv.input[:2], bias], list(norm.output))
        joined.name = norm.name
        made[place] = joined


def _normed(
    conv: onnx.NodeProto, norm: onnx.NodeProto, weight: onnx.NodeProto, values: dict[str, Any]
) -> str | None:
    """Adds the folded integers, scales and bias to ``values``; returns the bias's name, None if a value is computed or not per channel."""
    known: list[Array | None] = [values.get(n) for n in (*weight.input[:2], *norm.input[1:5])]
    held = [np.asarray(v) for v in known if isinstance(v, np.ndarray)]
    zero = values.get(weight.input[2]) if len(weight.input) > 2 else np.zeros(1)
    before = values.get(conv.input[2]) if len(conv.input) > 2 and conv.input[2] else np.zeros(1)
    said = {a.name: helper.get_attribute_value(a) for a in (*weight.attribute, *norm.attribute)}
    if len(held) < 6 or not isinstance(zero, np.ndarray) or not isinstance(before, np.ndarray):
        return None
    stored, scale, gamma, beta, mean, variance = held
    in_blocks = scale.ndim == stored.ndim
    along = scale.shape[:1] == gamma.shape and (in_blocks or said.get("axis", 1) == 0)
    if not along or np.any(zero.astype(int)):
        return None
    factor = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + said.get("epsilon", EPSILON))
    if not np.all(factor):
        return None
    of_scale = np.abs(factor).reshape(-1, *[1] * (scale.ndim - 1))
    signs = np.sign(factor).reshape(-1, *[1] * (stored.ndim - 1))
    ends = (
        (-8, 7)
        if stored.dtype.name == "int4"
        else (-(1 << 8 * stored.itemsize - 1), (1 << 8 * stored.itemsize - 1) - 1)
    )
    values[weight.input[0] + NORMED] = np.clip(stored.astype(int) * signs, *ends).astype(stored.dtype)
    values[weight.input[1] + NORMED] = (scale * of_scale).astype(np.float32)
    bias = f"{conv.input[1]}{NORMED}/bias"
    values[bias] = ((before - mean.astype(np.float64)) * factor + beta).astype(np.float32)
    return bias


def _reading(node: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]) -> onnx.NodeProto:
    """A copy of ``node`` with ``inputs`` instead of its first ones, and with ``outputs``."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.input[:], made.output[:]
    made.input.extend([*inputs, *node.input[len(inputs) :]])
    made.output.extend(outputs)
    return made
