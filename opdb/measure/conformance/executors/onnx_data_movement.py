"""ONNX's counterparts of ops that move elements or make them from indices, and of conversions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, TensorConfig
from opdb.measure.conformance import data
from opdb.measure.conformance.executors.base import Array, NoOracle, Params
from opdb.measure.conformance.executors.onnx_nodes import channels_first, channels_last, node, nodes

Inputs = Sequence[Any]  # arrays; None for an omitted input
#: Ends of a slice over a whole axis.
FIRST, LAST = -(2**62), 2**62


def concat(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    given = [x for x in inputs if x is not None]
    return [node("Concat", *given, axis=params.get("axis", given[0].ndim - 1))]


def pack(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    axis = params["axis"]
    given = [node("Unsqueeze", x, np.array([axis])) for x in inputs if x is not None]
    return [node("Concat", *given, axis=axis)]


def unpack(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    axis, parts = params["axis"], len(config.outputs)
    rows = nodes("Split", parts, inputs[0], axis=axis, num_outputs=parts)
    return [node("Squeeze", row, np.array([axis])) for row in rows]


def split(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    axis = params["axis"]
    sizes = np.diff([0, *params["split_index"], inputs[0].shape[axis]])
    return nodes("Split", len(sizes), inputs[0], sizes, axis=axis)


def reshape(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Reshape", inputs[0], np.array(config.outputs[0].shape, np.int64), allowzero=1)]


def expand_dims(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    axes = params.get("axes") or [params["axis"]]
    return [node("Unsqueeze", inputs[0], np.array(axes))]


def squeeze(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    axes = params.get("axes")
    return [node("Squeeze", inputs[0], *([] if axes is None else [np.array(axes, np.int64)]))]


def transpose(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Transpose", inputs[0], perm=params["perm"])]


def tile(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Tile", inputs[0], np.array(params["multiples"]))]


def _square(block: list[int]) -> int:
    if block[0] != block[1]:
        raise NoOracle("ONNX's blocks are square")
    return block[0]


def depth_to_space(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    size, mode = _square(params["block_size"]), ("DCR", "CRD")[params.get("mode", 0)]
    return [channels_last(node("DepthToSpace", channels_first(inputs[0]), blocksize=size, mode=mode))]


def space_to_depth(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    if params.get("mode", 0) != 0:
        raise NoOracle("ONNX's SpaceToDepth has no mode: it is DCR")
    size = _square(params["block_size"])
    return [channels_last(node("SpaceToDepth", channels_first(inputs[0]), blocksize=size))]


def strided_slice(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Slice; Squeeze for the axes that shrink, Unsqueeze for new ones."""

    def bit(name: str, i: int) -> bool:
        return bool(params.get(name, 0) >> i & 1)

    slices, shrunk, new, axis = [], list[int](), list[int](), 0
    for i, (begin, end, stride) in enumerate(params["ranges"]):
        if bit("new_axes_mask", i):
            new.append(axis - len(shrunk) + len(new))
            continue
        first, last = (FIRST, LAST) if stride > 0 else (LAST, FIRST)
        begin = (0 if bit("shrink_axes", i) else first) if bit("begin_mask", i) else begin
        if bit("shrink_axes", i):
            slices.append((begin, begin + 1 or LAST, axis, 1))
            shrunk.append(axis)
        else:
            end = last if bit("end_mask", i) or (stride < 0 and end < 0) else end
            slices.append((begin, end, axis, stride))
        axis += 1
    y = inputs[0]
    if slices:
        starts, ends, axes, steps = (np.array(column, np.int64) for column in zip(*slices, strict=True))
        y = node("Slice", y, starts, ends, axes, steps)
    y = node("Squeeze", y, np.array(shrunk)) if shrunk else y
    return [node("Unsqueeze", y, np.array(new)) if new else y]


def pad(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    x, mode = inputs[0], ("constant", "", "reflect", "edge")[params["scheme"]]
    if not mode:
        raise NoOracle("ONNX's Pad has no mode that repeats the border of what it mirrors")
    amounts = np.array(params["pad_amount"], np.int64).T.reshape(-1)
    value = [np.asarray(params.get("pad_constant_value", 0), x.dtype)] if mode == "constant" else []
    return [node("Pad", x, amounts, *value, mode=mode)]


def col2im(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    size, window = (np.array(v, np.int64) for v in (config.outputs[0].shape[1:3], params["kernel_size"]))
    (top, bottom), (left, right) = params["pad_amount"]
    more = {"dilations": params.get("dilation", [1, 1]), "strides": params["stride"]}
    return [channels_last(node("Col2Im", inputs[0], size, window, pads=[top, left, bottom, right], **more))]


# -- by indices


def gather(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Gather", *inputs, axis=params["axis"])]


def gather_elements(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("GatherElements", *inputs, axis=params.get("axis", 0))]


def gather_nd(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("GatherND", *inputs, batch_dims=params.get("batch_dims", 0))]


def batch_permutation(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Gather", *inputs, axis=0)]


def scatter_elements(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    reduction = ("none", "add", "mul", "max")[params.get("reduction", 0)]
    return [node("ScatterElements", *inputs, axis=params.get("axis", 0), reduction=reduction)]


def scatter_nd(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    reduction = ("none", "add", "mul")[params.get("reduction", 0)]
    return [node("ScatterND", *inputs, reduction=reduction)]


def one_hot(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    values = np.array([params.get("off_value", 0), params.get("on_value", 1)], np.float64)
    return [node("OneHot", inputs[0], np.asarray(params["depth"]), values, axis=params.get("axis", -1))]


def constant_of_shape(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """The numbers in ``shape`` are ignored: only the output's declared shape counts."""
    sizes = np.array(config.outputs[0].shape)
    return [node("ConstantOfShape", sizes, value=np.array([params["value"]], np.float64))]


def shape(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Shape", inputs[0], **{n: params[n] for n in ("start", "end") if n in params})]


def non_zero(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return [node("Transpose", node("NonZero", inputs[0]), perm=[1, 0])]


def select(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    condition, if_true, if_false = inputs
    return [node("Where", node("Cast", condition, to=TensorProto.BOOL), if_true, if_false)]


# -- types


def cast(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Casts stored numbers, whatever their encodings are."""
    (source,), (made,) = config.inputs, config.outputs
    x = data.quantized(inputs[0], source) if BY_SHORT[source.dtype].quantized else inputs[0]
    if made.dtype == "bf16":
        return [node("Cast", x, to=TensorProto.DOUBLE)]
    to = helper.np_dtype_to_tensor_dtype(np.dtype(str(BY_SHORT[made.dtype].numpy)))
    return [data.real(node("Cast", x, to=to), made)]


def convert(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """QuantizeLinear, then DequantizeLinear for the real values; real numbers are cast."""
    (source,), (made,) = config.inputs, config.outputs
    y = inputs[0]
    if BY_SHORT[source.dtype].quantized:
        y = node("DequantizeLinear", data.quantized(y, source), *_encoding(source), axis=_axis(source))
    if y.dtype.kind != "f" or not BY_SHORT[made.dtype].quantized:
        return [node("Cast", y, to=TensorProto.DOUBLE)]
    scale, zero = _encoding(made)
    q = node("QuantizeLinear", y.astype(np.float32), scale, zero, axis=_axis(made))
    return [node("DequantizeLinear", q, scale, zero, axis=_axis(made))]


def _axis(tensor: TensorConfig) -> int:
    return tensor.quant.axis or 0 if tensor.quant is not None else 0


def _encoding(tensor: TensorConfig) -> tuple[Array, Array]:
    """ONNX's scale and zero point; the zero point is QNN's offset with the opposite sign."""
    kind, quant = BY_SHORT[tensor.dtype], tensor.quant
    if (
        quant is None
        or kind.numpy is None
        or kind.bits not in (8, 16)
        or quant.bits not in (None, 0, kind.bits)
    ):
        raise NoOracle("ONNX's QuantizeLinear gives whole numbers of 8 and 16 bits")
    zero = -np.asarray(quant.offset or (0,) * len(quant.scale))
    low, high = data.limits(tensor)
    if bool(((zero < low) | (zero > high)).any()):
        raise NoOracle("ONNX's zero point is one of the numbers of its type")
    scale, zero = np.asarray(quant.scale, np.float32), zero.astype(kind.numpy)
    return (scale, zero) if "AXIS" in quant.encoding else (scale[0], zero[0])
