"""Ops with a filter and a bias: their channels, and the same op with both scaled."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor
from opdb.judge.errata.policy import active
from opdb.lower.passes.arithmetic import FLOATS, Array, rounded, static
from opdb.lower.passes.edit import Edit, parameter

CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d", "DepthWiseConv2d")
TRANSPOSED = ("TransposeConv1d", "TransposeConv2d", "TransposeConv3d")
PRODUCTS = ("FullyConnected", "MatMul")


@dataclass(frozen=True)
class Weighted:
    """An op with a constant filter, and a bias that is constant or absent.

    The last axis of its result has ``channels`` elements, and that of its input ``read``.
    """

    op: GraphOp
    dtype: str
    filter: Array
    bias: Array | None
    channels: int
    read: int

    def scaled(self, edit: Edit, factor: Array | None, term: Array | None) -> Changed | None:
        """The op that computes y * factor + term; both have one number per channel of y."""
        bias = self.bias
        if factor is not None and bias is not None:
            bias = bias.astype(np.float64) * factor
        if term is not None:
            bias = term if bias is None else bias.astype(np.float64) + term
        made = self.filter if factor is None else self.filter * self._along_outputs(factor)
        return self._with(edit, made, bias)

    def behind(self, edit: Edit, factor: Array | None, term: Array | None) -> Changed | None:
        """The op that does the same on x instead of x * factor + term; both have one number per channel of x."""
        bias = self.bias
        if term is not None:
            added = self._summed(self.filter.astype(np.float64) * self._along_inputs(term).astype(np.float64))
            bias = added if bias is None else bias.astype(np.float64) + added
        made = self.filter if factor is None else self.filter * self._along_inputs(factor)
        return self._with(edit, made, bias)

    def pads(self) -> bool:
        """True if its input is padded with zeros, or if it puts zeros between the elements."""
        amounts = parameter(self.op, "pad_amount", ())
        return self.op.op in TRANSPOSED or bool(np.any(np.asarray(amounts)))

    def _along_outputs(self, values: Array) -> Array:
        """One number per channel of the result, shaped to be multiplied with the filter."""
        values = values.astype(self.filter.dtype)
        if self.op.op == "FullyConnected" or self._transposed():
            return values[:, None]
        groups = int(parameter(self.op, "group", 1))
        if self.op.op in TRANSPOSED and groups > 1:  # filter [..., C, K / groups]
            return np.repeat(values.reshape(groups, -1), self.filter.shape[-2] // groups, axis=0)
        return values

    def _along_inputs(self, values: Array) -> Array:
        """One number per channel of the input, shaped to be multiplied with the filter."""
        values = values.astype(self.filter.dtype)
        if self.op.op == "FullyConnected" or self._transposed():
            return values
        if self.op.op == "DepthWiseConv2d":
            return np.repeat(values, self.channels // self.read)
        groups = int(parameter(self.op, "group", 1))
        if groups > 1:  # filter [..., C / groups, K]
            return np.repeat(values.reshape(groups, -1).T, self.channels // groups, axis=1)
        return values[:, None]

    def _summed(self, products: Array) -> Array:
        """Sums the products that belong to each channel of the result."""
        if self.op.op == "FullyConnected" or self._transposed():
            return np.asarray(products.sum(-1))
        return np.asarray(products.reshape(-1, self.channels).sum(0))

    def _transposed(self) -> bool:
        return self.op.op == "MatMul" and bool(parameter(self.op, "transpose_in1", False))

    def _with(self, edit: Edit, filter: Array, bias: Array | None) -> Changed | None:
        x, name = self.op.inputs[0], self.op.inputs[1]
        if not np.isfinite(filter).all():
            return None
        if bias is not None and self.bias is None and self.op.op == "MatMul" and _loses_bias(edit):
            return None
        inputs, tensors = [x, name], []
        if filter is not self.filter:
            tensors.append(static(edit, f"{name}_scaled", filter, self.dtype))
            inputs[1] = tensors[0].name
        if bias is not None:
            made = rounded(bias, self.dtype)
            if made is None:
                return None
            tensors.append(static(edit, f"{self.op.name}_bias", made, self.dtype))
            inputs.append(tensors[-1].name)
        return Changed(replace(self.op, inputs=tuple(inputs)), tuple(tensors))


def _loses_bias(edit: Edit) -> bool:
    """True if the graph will be quantized for a library that does not add a quantized bias to a MatMul."""
    return edit.target.to_quantize and active("HTP-0224", edit.target)


@dataclass(frozen=True)
class Changed:
    """A new op, and its constants that are not in the graph yet."""

    op: GraphOp
    tensors: tuple[GraphTensor, ...]


def weighted(edit: Edit, op: GraphOp | None) -> Weighted | None:
    """``op`` with its constant float filter; None for any other op."""
    if op is None or op.op not in (*CONVOLUTIONS, *TRANSPOSED, *PRODUCTS):
        return None
    given = edit.constant(op.inputs[1])
    bias = edit.constant(op.inputs[2]) if len(op.inputs) > 2 else None
    absent = len(op.inputs) < 3 or op.inputs[2] is None
    x, y = edit.tensors[op.inputs[0] or ""], edit.tensors[op.outputs[0]]
    if given is None or (bias is None and not absent) or x.type == "STATIC":
        return None
    dtype = edit.tensors[op.inputs[1] or ""].dtype
    if dtype not in FLOATS or {x.dtype, y.dtype} != {dtype} or given.ndim < 2:
        return None
    if op.op == "MatMul" and (parameter(op, "transpose_in0", False) or np.prod(given.shape[:-2]) != 1):
        return None
    return Weighted(op, dtype, given, bias, y.shape[-1], x.shape[-1])
