"""ONNX's counterparts of ops over axes and windows: reductions, norms, pools, products and convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Array, NoOracle, Params
from opdb.measure.conformance.executors.meaning import optional
from opdb.measure.conformance.executors.onnx_nodes import channels_first, channels_last, node, nodes

Inputs = Sequence[Any]  # arrays; None for an omitted input
Counterpart = Callable[[OpConfig, Inputs, Params], list[Array]]


# -- over axes


def reduction(op: str) -> Counterpart:
    """A reduction over the parameter ``axes``."""

    def counterpart(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
        axes, keep = np.array(params["axes"], np.int64), int(params.get("keep_dims", False))
        return [node(op, inputs[0], axes, keepdims=keep, noop_with_empty_axes=1)]

    return counterpart


def arg(op: str) -> Counterpart:
    def counterpart(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
        return [node(op, inputs[0], axis=params["axis"], keepdims=int(params.get("keep_dims", False)))]

    return counterpart


def moments(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """The mean, and the mean of the squared distances from it."""
    axes, keep = np.array(params["axes"], np.int64), int(params["keep_dims"])
    more = {"noop_with_empty_axes": 1}
    distance = node("Sub", inputs[0], node("ReduceMean", inputs[0], axes, keepdims=1, **more))
    square = node("Mul", distance, distance)
    return [node("ReduceMean", x, axes, keepdims=keep, **more) for x in (inputs[0], square)]


def cumulative_sum(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    how = {n: int(params.get(n, False)) for n in ("exclusive", "reverse")}
    return [node("CumSum", inputs[0], np.asarray(params["axis"], np.int64), **how)]


def top_k(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    return nodes("TopK", 2, inputs[0], np.array([params["k"]]), largest=int(params.get("largest", True)))


def softmax(op: str) -> Counterpart:
    def counterpart(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
        scaled = node("Mul", inputs[0], np.asarray(params.get("beta", 1.0), inputs[0].dtype))
        return [node(op, scaled, axis=params.get("axis", -1))]

    return counterpart


# -- norms


def _over(x: Array, axes: list[int], norm: Callable[[Array, list[int]], Array]) -> Array:
    """Moves the op's axes to the end, in their order, and back, because ONNX's norms are over the last axes."""
    if not axes:
        raise NoOracle("ONNX's norms are over one axis or more")
    order = [d for d in range(x.ndim) if d not in axes] + axes
    y = norm(node("Transpose", x, perm=order), [x.shape[a] for a in axes])
    return node("Transpose", y, perm=[order.index(d) for d in range(x.ndim)])


def layer_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    def norm(x: Array, sizes: list[int]) -> Array:
        gamma = np.ones(sizes) if optional(inputs, 1) is None else inputs[1]
        epsilon = params.get("epsilon", 0.001)
        return node("LayerNormalization", x, gamma, optional(inputs, 2), axis=-len(sizes), epsilon=epsilon)

    return [_over(inputs[0], list(params["axes"]), norm)]


def rms_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Adds beta, which ONNX's RMSNormalization lacks."""

    def norm(x: Array, sizes: list[int]) -> Array:
        gamma = np.ones(sizes) if optional(inputs, 1) is None else inputs[1]
        epsilon = params.get("epsilon", 1e-6)
        y = node("RMSNormalization", x, gamma, axis=-len(sizes), epsilon=epsilon)
        return y if optional(inputs, 2) is None else node("Add", y, inputs[2])

    return [_over(inputs[0], list(params["axes"]), norm)]


def _of_channels(x: Array, i: int, inputs: Inputs, default: float) -> Array:
    """Input ``i``, a number or one per channel, broadcast to one per channel."""
    given = optional(inputs, i)
    return np.broadcast_to(default if given is None else given, x.shape[-1:]).astype(np.float64)


def group_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    x = inputs[0]
    y = node(
        "GroupNormalization", channels_first(x), _of_channels(x, 1, inputs, 1.0), _of_channels(x, 2, inputs, 0.0),
        num_groups=params["group"], epsilon=params["epsilon"],
    )  # fmt: skip
    return [channels_last(y)]


def instance_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Uses RMSNormalization if the op is one."""
    x, region, epsilon = inputs[0], params.get("region", 0), params.get("epsilon", 1e-12)
    gamma, beta = _of_channels(x, 1, inputs, 1.0), _of_channels(x, 2, inputs, 0.0)
    if params.get("mode", 0) == 1 and region != 0:
        y = node("RMSNormalization", x, gamma, axis=-1 if region == 1 else 1, epsilon=epsilon)
        return [node("Add", y, beta)]
    if params.get("mode", 0) == 1 or region != 0 or not params.get("normalize_variance", True):
        raise NoOracle("ONNX's InstanceNormalization is over places, with a mean and a variance")
    return [channels_last(node("InstanceNormalization", channels_first(x), gamma, beta, epsilon=epsilon))]


def batchnorm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """BatchNormalization with mean 0 and variance 1: QNN's has the statistics folded into weight and bias."""
    x = inputs[0]
    weight, bias = _of_channels(x, 1, inputs, 1.0), _of_channels(x, 2, inputs, 0.0)
    image = x.reshape(-1, x.shape[-1])
    y = node("BatchNormalization", image, weight, bias, 0 * weight, 0 * weight + 1, epsilon=0.0)
    return [y.reshape(x.shape)]


def l2_norm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """ReduceL2 and Div with the root of epsilon as the minimum, because ONNX's LpNormalization has no epsilon."""
    x, axes = inputs[0], params.get("axes")
    axes = np.array([params.get("axis", 0)] if axes is None else axes, np.int64)
    norm = node("ReduceL2", x, axes, keepdims=1, noop_with_empty_axes=1)
    return [node("Div", x, node("Max", norm, np.asarray(params.get("epsilon", 1e-12) ** 0.5)))]


def lrn(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Multiplies alpha by the number of neighbors, which ONNX divides it by."""
    if params.get("region", 0) == 1:
        raise NoOracle("ONNX's LRN is across channels")
    x, size = inputs[0], 2 * params["radius"] + 1
    numbers = {n: params.get(n, d) for n, d in (("alpha", 1.0), ("beta", 0.5), ("bias", 1.0))}
    numbers["alpha"] *= size
    y = node("LRN", x.reshape(-1, x.shape[-1], 1, 1), size=size, **numbers)
    return [y.reshape(x.shape)]


# -- windows


def _pads(rows: Any) -> list[int]:
    """Converts [[before, after], ...] to ONNX's order: all befores, then all afters."""
    return [int(v) for v in np.array(rows).reshape(-1, 2).T.reshape(-1)]


def pool(op: str, **attributes: int) -> Counterpart:
    def counterpart(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
        more = dict(attributes, ceil_mode=params.get("rounding_mode", 0))
        if "count_pad_for_edges" in params:
            more["count_include_pad"] = int(params["count_pad_for_edges"])
        y = node(
            op, channels_first(inputs[0]), kernel_shape=params["filter_size"], strides=params["stride"],
            pads=_pads(params["pad_amount"]), **more,
        )  # fmt: skip
        return [channels_last(y)]

    return counterpart


def l2_pool(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Built from an average of squares: ONNX's LpPool takes the root of the sum, QNN's op that of the mean."""
    squares = node("Mul", inputs[0], inputs[0])
    return [node("Sqrt", pool("AveragePool")(config, [squares], params)[0])]


# -- products and convolutions


def fully_connected(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    rows = inputs[0].reshape(-1, inputs[1].shape[1])
    y = node("Gemm", rows, inputs[1], optional(inputs, 2), transB=1)
    return [y.reshape(config.outputs[0].shape)]


def mat_mul(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    a, b = (
        np.swapaxes(x, -1, -2) if params.get(f"transpose_in{i}", False) else x
        for i, x in enumerate(inputs[:2])
    )
    y = node("MatMul", a, b)
    return [y if optional(inputs, 2) is None else node("Add", y, inputs[2])]


def _list(value: Any) -> list[int]:
    """Turns a number, as parameters of one dimension are given, into a list."""
    return [value] if isinstance(value, int) else list(value)


def _sizes(params: Params, dims: int) -> dict[str, list[int]]:
    return {
        "strides": _list(params["stride"]),
        "dilations": _list(params.get("dilation", [1] * dims)),
        "pads": _pads(params["pad_amount"]),
    }


def conv(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Converts filters [taps, C / group, K] to [K, C / group, taps]; depthwise ones have C groups."""
    x, weight = inputs[0], np.moveaxis(inputs[1], (-1, -2), (0, 1))
    group = x.shape[-1] if config.op.startswith("DepthWise") else params.get("group", 1)
    sizes = _sizes(params, x.ndim - 2)
    return [channels_last(node("Conv", channels_first(x), weight, optional(inputs, 2), group=group, **sizes))]


def transpose_conv(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Converts filters [taps, C, K / group] to [C, K / group, taps]."""
    x, weight, dims = inputs[0], np.moveaxis(inputs[1], (-2, -1), (0, 1)), inputs[0].ndim - 2
    y = node(
        "ConvTranspose", channels_first(x), weight, optional(inputs, 2), group=params.get("group", 1),
        output_padding=_list(params.get("output_padding", [0] * dims)), **_sizes(params, dims),
    )  # fmt: skip
    return [channels_last(y)]
