"""Runs a QnnGraph with PyTorch, op by op, following QNN's documents.

Independent of opdb's kernels and of the mappings: it knows only QNN's layouts and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from movement import MOVEMENT
from scattering import SCATTERING
from simple import SIMPLE
from torch import Tensor, nn

from opdb.core.graph import QnnGraph

STORED = {
    "f32": torch.float32,
    "f16": torch.float16,
    "i32": torch.int32,
    "u32": torch.uint32,
    "bool8": torch.bool,
    "u8": torch.uint8,
}
Params = dict[str, Any]


def run(graph: QnnGraph, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of ``graph``, in its order."""
    values: dict[str, Tensor] = {}
    for t, given in zip(graph.inputs, inputs, strict=True):
        values[t.name] = given.reshape(t.shape).to(STORED[t.dtype])
    for t in graph.tensors.values():
        if t.type == "STATIC":
            assert isinstance(t.data, np.ndarray) and t.data.shape == t.shape, t.name
            values[t.name] = torch.from_numpy(t.data.copy())
            assert values[t.name].dtype == STORED[t.dtype], t.name
    for op in graph.ops:
        params = {
            p.name: p.value if p.shape is None else np.reshape(p.value, p.shape).tolist() for p in op.params
        }
        made = OPS[op.op]([None if n is None else values[n] for n in op.inputs], params, graph, op.outputs)
        for name, value in zip(op.outputs, made if isinstance(made, list) else [made], strict=True):
            t = graph.tensors[name]
            assert tuple(value.shape) == t.shape, (
                f"{op.name} makes {tuple(value.shape)}, the graph says {t.shape}"
            )
            assert value.dtype == STORED[t.dtype], f"{op.name} makes {value.dtype}, the graph says {t.dtype}"
            assert name not in values, f"{name} is written twice"
            values[name] = value
    return [values[t.name] for t in graph.outputs]


def layer_norm(x: list[Any], p: Params, *_: Any) -> Tensor:
    axes = p["axes"]
    mean = x[0].mean(axes, keepdim=True)
    scale = torch.rsqrt(x[0].var(axes, keepdim=True, unbiased=False) + p.get("epsilon", 0.001))
    spread = [d if i in axes else 1 for i, d in enumerate(x[0].shape)]
    gamma, beta = (t.reshape(spread) if t is not None else None for t in (*x[1:], None, None)[:2])
    y = (x[0] - mean) * scale
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def fully_connected(x: list[Any], p: Params, *_: Any) -> Tensor:
    rows = x[0].reshape(-1, x[1].shape[1])
    y = rows @ x[1].T
    if len(x) > 2 and x[2] is not None:
        y = y + x[2]
    return y.reshape(*x[0].shape[:-1], -1) if p.get("keep_dims", False) else y


def conv2d(x: list[Any], p: Params, *_: Any) -> Tensor:
    (top, bottom), (left, right) = p["pad_amount"]
    image = nn.functional.pad(x[0].permute(0, 3, 1, 2), (left, right, top, bottom))
    bias = x[2] if len(x) > 2 else None
    y = nn.functional.conv2d(
        image, x[1].permute(3, 2, 0, 1), bias, p["stride"], 0, p.get("dilation", [1, 1]), p.get("group", 1)
    )
    return y.permute(0, 2, 3, 1)


def depthwise_conv2d(x: list[Any], p: Params, *_: Any) -> Tensor:
    """The filter is [height, width, 1, channels of the result]; each group reads one channel."""
    return conv2d(x, {**p, "group": x[0].shape[-1]})


def batchnorm(x: list[Any], *_: Any) -> Tensor:
    """Applies a factor and a term per index of the last dimension."""
    y = x[0] * x[1]
    return y if len(x) < 3 or x[2] is None else y + x[2]


def mat_mul(x: list[Any], p: Params, *_: Any) -> Tensor:
    a = x[0].mT if p.get("transpose_in0", False) else x[0]
    b = x[1].mT if p.get("transpose_in1", False) else x[1]
    return a @ b if len(x) < 3 or x[2] is None else a @ b + x[2]


def conv3d(x: list[Any], p: Params, *_: Any) -> Tensor:
    (front, back), (top, bottom), (left, right) = p["pad_amount"]
    volume = nn.functional.pad(x[0].permute(0, 4, 1, 2, 3), (left, right, top, bottom, front, back))
    bias = x[2] if len(x) > 2 else None
    y = nn.functional.conv3d(
        volume, x[1].permute(4, 3, 0, 1, 2), bias, p["stride"], 0, p.get("dilation", 1), p.get("group", 1)
    )
    return y.permute(0, 2, 3, 4, 1)


def split(x: list[Any], p: Params, *_: Any) -> list[Tensor]:
    return list(torch.tensor_split(x[0], p["split_index"], p["axis"]))


def reduced(by: Callable[[Tensor, int], Tensor]) -> Callable[..., Tensor]:
    """A reduction that handles one axis after another; ``by`` keeps the axis as 1."""

    def reduce(x: list[Any], p: Params, *_: Any) -> Tensor:
        y: Tensor = x[0]
        for axis in p["axes"]:
            y = by(y, axis)
        if p.get("keep_dims", False):
            return y.to(x[0].dtype)
        left = [d for i, d in enumerate(y.shape) if i not in p["axes"]]
        return y.reshape(left or [1]).to(x[0].dtype)

    return reduce


def rms_norm(x: list[Any], p: Params, *_: Any) -> Tensor:
    y = x[0] * torch.rsqrt(x[0].square().mean(p["axes"], keepdim=True) + p.get("epsilon", 1e-6))
    gamma, beta = (*x[1:], None, None)[:2]
    y = y if gamma is None else y * gamma
    return y if beta is None else y + beta


def cumulative_sum(x: list[Any], p: Params, *_: Any) -> Tensor:
    assert not p.get("exclusive", False) and not p.get("reverse", False)
    return torch.cumsum(x[0], p["axis"], dtype=x[0].dtype)


def im2col(x: list[Any], p: Params, *_: Any) -> Tensor:
    """Returns columns whose rows are the channels, then the rows and the columns of the kernel."""
    (top, bottom), (left, right) = p["pad_amount"]
    image = nn.functional.pad(x[0].permute(0, 3, 1, 2), (left, right, top, bottom))
    return nn.functional.unfold(image, p["kernel_size"], p.get("dilation", 1), 0, p["stride"])


def softplus(t: Tensor, beta: float, threshold: float) -> Tensor:
    return torch.where(t * beta > threshold, t, torch.log1p(torch.exp(beta * t)) / beta)


# The numbers come from QnnOpDef.h.
BINARY: Mapping[int, Callable[[Tensor, Tensor], Tensor]] = {
    0: torch.add, 1: torch.logical_and, 2: torch.div, 3: torch.eq, 4: torch.floor_divide, 5: torch.fmod,
    6: torch.gt, 7: torch.ge, 8: torch.lt, 9: torch.le, 10: torch.maximum, 11: torch.minimum,
    12: torch.remainder, 13: torch.mul, 14: torch.ne, 15: torch.logical_or, 16: torch.pow, 18: torch.sub,
    19: torch.logical_xor,
}  # fmt: skip


def neuron(x: list[Any], p: Params, *_: Any) -> Tensor:
    t, kind = x[0], p["operation"]
    alpha, beta = p.get("alpha", 1.0), p.get("beta", 1.0)
    if kind == 0:
        return torch.where(t > 0, t, alpha * torch.expm1(t))
    if kind == 1:
        return 0.5 * t * (1 + torch.erf(t / 2**0.5))
    if kind == 2:
        return torch.clamp(alpha * t + beta, 0, 1)
    if kind == 3:
        return t * torch.clamp(t + 3, 0, 6) / 6
    if kind == 4:
        return torch.clamp(t, min=0)
    if kind == 5:
        return torch.clamp(t, p["min_value"], p["max_value"])
    if kind == 6:
        return torch.sigmoid(t)
    if kind == 7:
        return softplus(t, beta, p["threshold"])
    assert kind == 8
    return torch.tanh(t)


def unary(call: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    return lambda x, p, *_: call(x[0])


UNARY: Mapping[str, Callable[..., Any]] = {
    "ElementWiseAbs": unary(torch.abs),
    "ElementWiseAsin": unary(torch.asin),
    "ElementWiseAtan": unary(torch.atan),
    "ElementWiseCeil": unary(torch.ceil),
    "ElementWiseCos": unary(torch.cos),
    "ElementWiseExp": unary(torch.exp),
    "ElementWiseFloor": unary(torch.floor),
    "ElementWiseLog": unary(torch.log),
    "ElementWiseNeg": unary(torch.neg),
    "ElementWiseRound": unary(torch.round),
    "ElementWiseRsqrt": unary(torch.rsqrt),
    "ElementWiseSign": unary(torch.sign),
    "ElementWiseSin": unary(torch.sin),
    "ElementWiseSquareRoot": unary(torch.sqrt),
}
PAIRS = {
    "Divide": lambda a, b: torch.div(a, b, rounding_mode=None if a.is_floating_point() else "trunc"),
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterEqual": torch.ge,
    "Less": torch.lt,
    "LessEqual": torch.le,
    "Maximum": torch.maximum,
    "Minimum": torch.minimum,
    "Multiply": torch.mul,
    "NotEqual": torch.ne,
    "Or": torch.logical_or,
    "Power": torch.pow,
    "Subtract": torch.sub,
    "Xor": torch.logical_xor,
}
OPS: Mapping[str, Callable[..., Any]] = {
    "Relu": lambda x, p, *_: torch.clamp(x[0], min=0),
    "ElementWiseNeuron": neuron,
    "ElementWiseAdd": lambda x, p, *_: x[0] + x[1],
    "ElementWiseBinary": lambda x, p, *_: BINARY[p["operation"]](x[0], x[1]),
    "LayerNorm": layer_norm,
    "Softmax": lambda x, p, *_: torch.softmax(p.get("beta", 1.0) * x[0], p.get("axis", x[0].ndim - 1)),
    "FullyConnected": fully_connected,
    "MatMul": mat_mul,
    "Conv2d": conv2d,
    "DepthWiseConv2d": depthwise_conv2d,
    "Batchnorm": batchnorm,
    "Gelu": lambda x, p, *_: nn.functional.gelu(x[0]),
    "Concat": lambda x, p, *_: torch.cat(x, p.get("axis", x[0].ndim - 1)),
    "Reshape": lambda x, p, graph, outputs: x[0].reshape(graph.tensors[outputs[0]].shape),
    "Transpose": lambda x, p, *_: x[0].permute(p["perm"]),
    "Split": split,
    "Conv3d": conv3d,
    "RmsNorm": rms_norm,
    "CumulativeSum": cumulative_sum,
    "GatherElements": lambda x, p, *_: torch.gather(x[0], p.get("axis", 0), x[1].long()),
    "Im2Col": im2col,
    "IsInf": lambda x, p, *_: x[0].abs() == torch.inf,
    "IsNan": lambda x, p, *_: x[0] != x[0],
    "LogSoftmax": lambda x, p, *_: torch.log_softmax(p.get("beta", 1.0) * x[0], p.get("axis", x[0].ndim - 1)),
    "ExpandDims": lambda x, p, *_: x[0].unsqueeze(p["axis"]),
    "Pack": lambda x, p, *_: torch.stack(x, p["axis"]),
    "UnPack": lambda x, p, *_: [t.squeeze(p["axis"]) for t in x[0].split(1, p["axis"])],
    "ReduceMax": reduced(lambda t, axis: t.amax(axis, keepdim=True)),
    "ReduceMean": reduced(lambda t, axis: t.mean(axis, keepdim=True)),
    "ReduceMin": reduced(lambda t, axis: t.amin(axis, keepdim=True)),
    "ReduceProd": reduced(lambda t, axis: t.prod(axis, keepdim=True)),
    "ReduceSum": reduced(lambda t, axis: t.sum(axis, keepdim=True)),
    "ElementWiseAnd": lambda x, p, *_: x[0] & x[1],
    "ElementWiseNot": lambda x, p, *_: ~x[0],
    "ElementWiseSelect": lambda x, p, *_: torch.where(x[0], x[1], x[2]),
    "ElementWiseSoftplus": lambda x, p, *_: softplus(x[0], p.get("beta", 1.0), p["threshold"]),
    **UNARY,
    **MOVEMENT,
    **SCATTERING,
    **SIMPLE,
    **{f"ElementWise{n}": lambda x, p, *_, call=call: call(x[0], x[1]) for n, call in PAIRS.items()},
}
