"""Quantized tensors in the form that their readers get: moved, widened, and biases in steps of the products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch.fx import Node

from opdb.core.op_config import Quant
from opdb.programs.torch.encodings import TRANSPOSED, WITH_BIAS, Encoded, Key
from opdb.programs.torch.tensors import ProgramTensors

IN_8_BITS = "_in_8_bits"


def read(program: ProgramTensors, node: Node, reader: Node, argument: str, wide: bool = False) -> Key:
    """The tensor that ``reader`` gets as ``argument``, which is ``node`` in PyTorch.

    ``wide``: give weights of fewer bits, or in blocks, in 8 bits.
    """
    key = program.read_by(node, reader)
    if key not in program.values:
        return key
    if argument == "bias" and str(reader.target) in WITH_BIAS | TRANSPOSED:
        return _bias(program, key, reader, wide)
    wide = wide or (str(reader.target) not in WITH_BIAS and _in_blocks(program, key))
    return _widened(program, key) if wide and _narrow(program, key) else key


def narrow(program: ProgramTensors, reader: Node) -> bool:
    """True if a node reads a constant of fewer than 8 bits, or in blocks."""
    return any(_narrow(program, program.read_by(n, reader)) for n in reader.all_input_nodes)


def _narrow(program: ProgramTensors, key: Key) -> bool:
    quant = program.encodings.of[key][1] if key in program.encodings.of and key in program.values else None
    return quant is not None and (quant.bits is not None or quant.blocks is not None)


def _in_blocks(program: ProgramTensors, key: Key) -> bool:
    """True if a weight has blocks.

    MatMul gets such a weight in 8 bits: AIMET's decoder block with MatMul weights in blocks was 5,313 of 65,536 steps off on HTP.
    """
    found = program.encodings.of.get(key)
    return found is not None and found[1].blocks is not None


def _widened(program: ProgramTensors, key: Key) -> Key:
    """The same values in 8 bits with one scale, or one per channel."""
    wide = (f"{key[0]}{IN_8_BITS}", key[1])
    if wide not in program.values:
        value, (dtype, quant) = program.values[key], program.encodings.of[key]
        if quant.blocks is not None:
            value = value if value.is_meta else _spread(value, quant)
            kind = "AXIS_SCALE_OFFSET"
        else:
            kind = quant.encoding.removeprefix("BW_")
            if dtype == "sq8" and quant.bits == 4 and not any(quant.offset):
                # As large as 8 bits hold: the error of HTP's 16-bit sums fell from 23 steps to 4 (docs/results/quantized-onnx.md).
                value, quant = value * 16, replace(quant, scale=tuple(s / 16 for s in quant.scale))
        program.values[wide] = value
        program.encodings.of[wide] = dtype, replace(quant, encoding=kind, bits=None, blocks=None)
    return wide


def _spread(value: torch.Tensor, quant: Quant) -> torch.Tensor:
    """Each element times its block's integer: -128 to 112."""
    assert quant.blocks is not None and quant.axis is not None
    along = 1 - quant.axis
    steps = torch.tensor(quant.blocks.scales, dtype=torch.int8).reshape(-1, quant.blocks.per_axis)
    steps = steps.repeat_interleave(-(-value.shape[along] // quant.blocks.per_axis), 1)[
        :, : value.shape[along]
    ]
    steps = steps if quant.axis == 0 else steps.t()
    return value * steps.reshape(*steps.shape, *[1] * (value.dim() - 2))


def _bias(program: ProgramTensors, key: Key, reader: Node, wide: bool) -> Key:
    """The integers of a bias next to quantized tensors, in steps of the products.

    A stored bias stays as it is, except one with a single scale next to a weight with a scale per filter: HTP reads it as 0.
    """
    of = program.encodings.of
    x, weight = (of.get(read(program, n, reader, "", wide)) for n in reader.args[:2] if isinstance(n, Node))
    stored = (f"{reader.name}_bias{IN_8_BITS if wide else ''}", 0)
    if x is None or weight is None or (reader.name, 0) not in of:
        return key
    given = of[key][1] if key in of else None
    if given is not None and (given.encoding != "SCALE_OFFSET" or weight[1].axis is None):
        return key
    if stored not in program.values:
        value = program.values[key]
        if given is not None and not value.is_meta:
            value = (value.double() + given.offset[0]) * given.scale[0]
        found = bias(value, x[1], weight[1], _filters(reader))
        if found is None:
            return key
        program.values[stored], of[stored] = found
    return stored


def _filters(reader: Node) -> int:
    """The dimension of the filters in the weight."""
    joined = str(reader.target) == "aten.convolution.default" and bool(reader.args[6])
    return int(joined or str(reader.target) in TRANSPOSED)


def bias(value: torch.Tensor, x: Quant, weight: Quant, filters: int) -> tuple[torch.Tensor, Encoded] | None:
    """A float bias as stored integers in steps of the products; None if a channel has no single step.

    With a weight in blocks the step is that of the channel's scale, as QNN requires.
    ``filters``: the dimension of the filters in the weight, counted per group if there are several scales but fewer than
    filters.
    """
    if x.axis is not None or x.blocks is not None:
        return None
    if weight.axis not in (None, filters) or value.numel() % len(weight.scale):
        return None
    scales = np.array(weight.scale, np.float32) * np.float32(x.scale[0])
    kind, axis = ("SCALE_OFFSET", None) if weight.axis is None else ("AXIS_SCALE_OFFSET", 0)
    if axis is not None:
        scales = np.tile(scales, value.numel() // len(scales))
    steps: tuple[float, ...] = tuple(scales.tolist())
    found = "sq32", Quant(kind, steps, (0,) * len(steps), axis)
    if value.is_meta:
        return value.to(torch.int32), found
    stored = np.rint(value.detach().double().numpy() / scales.astype(np.float64))
    if not np.isfinite(stored).all() or np.abs(stored).max(initial=0) >= 2**31:
        return None
    return torch.from_numpy(stored.astype(np.int32)), found
