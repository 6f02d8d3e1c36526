"""Interpreter ops that move, pick, pad, pool and resize, in QNN's layouts and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.core.graph import QnnGraph

Params = dict[str, Any]
PAD_MODES = {0: "constant", 1: "symmetric", 2: "reflect", 3: "edge"}


def nchw(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Makes an NHWC op from an NCHW function."""
    return lambda x, p, *_: call(x[0].permute(0, 3, 1, 2), p).permute(0, 2, 3, 1)


def channel_shuffle(x: list[Any], p: Params, *_: Any) -> Tensor:
    groups = x[0].unflatten(p["axis"], (p["num_groups"], -1))
    return groups.transpose(p["axis"], p["axis"] + 1).reshape(x[0].shape)


def strided_slice(x: list[Any], p: Params, *_: Any) -> Tensor:
    picked = x[0].numpy()
    for axis, (begin, end, stride) in enumerate(p["ranges"]):
        last = None if stride < 0 and end < 0 else end
        picked = picked[(slice(None),) * axis + (slice(begin, last, stride),)]
    gone = tuple(i for i in range(picked.ndim) if p.get("shrink_axes", 0) >> i & 1)
    return torch.from_numpy(np.squeeze(picked, gone).copy())


def gather(x: list[Any], p: Params, *_: Any) -> Tensor:
    return torch.from_numpy(np.take(x[0].numpy(), x[1].numpy(), axis=p.get("axis", 0)))


def top_k(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> list[Tensor]:
    values, indices = torch.topk(x[0], p["k"], largest=p.get("largest", True))
    return [
        values,
        indices.to(getattr(torch, "int32" if graph.tensors[outputs[1]].dtype == "i32" else "uint32")),
    ]


def extreme(call: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def run(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
        dtype = torch.int32 if graph.tensors[outputs[0]].dtype == "i32" else torch.uint32
        made = call(x[0], p["axis"], keepdim=p.get("keep_dims", False))
        return made.to(dtype).reshape(graph.tensors[outputs[0]].shape)

    return run


def pad(x: list[Any], p: Params, *_: Any) -> Tensor:
    mode = PAD_MODES[p["scheme"]]
    more = {"constant_values": p.get("pad_constant_value", 0.0)} if mode == "constant" else {}
    return torch.from_numpy(np.pad(x[0].numpy(), p["pad_amount"], mode, **more))


def padded(t: Tensor, p: Params, value: float) -> Tensor:
    (top, bottom), (left, right) = p["pad_amount"]
    return functional.pad(t, (left, right, top, bottom), value=value)


def average(t: Tensor, p: Params) -> Tensor:
    total = functional.avg_pool2d(padded(t, p, 0.0), p["filter_size"], p["stride"])
    if p.get("count_pad_for_edges", False):
        return total
    return total / functional.avg_pool2d(padded(torch.ones_like(t), p, 0.0), p["filter_size"], p["stride"])


def resize_bilinear(t: Tensor, p: Params, size: tuple[int, ...]) -> Tensor:
    return functional.interpolate(t, size, mode="bilinear", align_corners=p.get("align_corners", False))


def resized(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    assert p.get("align_corners", False) != p.get("half_pixel_centers", False)
    size = graph.tensors[outputs[0]].shape[1:3]
    return nchw(lambda t, p: resize_bilinear(t, p, size))(x, p)


def resized_cubic(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    """Resizes with CUBIC (2) and HALF_PIXEL (0) or ALIGN_CORNERS (2)."""
    assert p["interpolation_mode"] == 2 and p["transformation_mode"] in (0, 2)
    size, corners = graph.tensors[outputs[0]].shape[1:3], p["transformation_mode"] == 2
    made = functional.interpolate(x[0].movedim(-1, 1), size, mode="bicubic", align_corners=corners)
    return made.movedim(1, -1)


def nearest(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    assert not p.get("align_corners", False) and not p.get("half_pixel_centers", False)
    size = graph.tensors[outputs[0]].shape[1:3]
    return nchw(lambda t, p: functional.interpolate(t, size))(x, p)


def grid_sample(x: list[Any], p: Params, *_: Any) -> Tensor:
    mode = ("bilinear", "nearest")[p.get("mode", 0)]
    beyond = ("zeros", "border", "reflection")[p.get("padding_mode", 0)]
    corners = p.get("align_corners", False)
    made = functional.grid_sample(x[0].movedim(-1, 1), x[1], mode, beyond, corners)
    return made.movedim(1, -1)


def transpose_conv2d(x: list[Any], p: Params, *_: Any) -> Tensor:
    """The filter is [height, width, in, out of a group]; padding crops the full result."""
    image, filter_, bias = (*x, None)[:3]
    (top, bottom), (left, right) = p["pad_amount"]
    down, across = p.get("output_padding", [0, 0])
    weight = filter_.permute(2, 3, 0, 1)
    full = functional.conv_transpose2d(
        image.permute(0, 3, 1, 2), weight, None, p["stride"], groups=p.get("group", 1)
    )
    full = functional.pad(full, (0, across, 0, down))
    cut = full[:, :, top : full.shape[2] - bottom, left : full.shape[3] - right].permute(0, 2, 3, 1)
    return cut if bias is None else cut + bias


def pool3d(call: Callable[..., Tensor], filler: float) -> Callable[..., Tensor]:
    def run(x: list[Any], p: Params, *_: Any) -> Tensor:
        t = x[0].permute(0, 4, 1, 2, 3)
        sides = [n for pair in reversed(p["pad_amount"]) for n in pair]
        made = call(functional.pad(t, sides, value=filler), p["filter_size"], p["stride"])
        if filler == 0.0 and not p.get("count_pad_for_edges", False):
            made = made / call(functional.pad(torch.ones_like(t), sides), p["filter_size"], p["stride"])
        return made.permute(0, 2, 3, 4, 1)

    return run


def col2im(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    (top, bottom), (left, right) = p["pad_amount"]
    assert (top, left) == (bottom, right)
    size = graph.tensors[outputs[0]].shape[1:3]
    made = functional.fold(x[0], size, p["kernel_size"], p.get("dilation", 1), (top, left), p["stride"])
    return made.permute(0, 2, 3, 1)


def depth_to_space(t: Tensor, p: Params) -> Tensor:
    assert p["mode"] == 1 and p["block_size"][0] == p["block_size"][1]
    return functional.pixel_shuffle(t, p["block_size"][0])


def space_to_depth(t: Tensor, p: Params) -> Tensor:
    assert p["mode"] == 1 and p["block_size"][0] == p["block_size"][1]
    return functional.pixel_unshuffle(t, p["block_size"][0])


def group_norm(x: list[Any], p: Params, *_: Any) -> Tensor:
    return nchw(lambda t, p: functional.group_norm(t, p["group"], x[1], x[2], p["epsilon"]))(x, p)


MOVEMENT: Mapping[str, Callable[..., Any]] = {
    "Tile": lambda x, p, *_: x[0].repeat(p["multiples"]),
    "StridedSlice": strided_slice,
    "Gather": gather,
    "TopK": top_k,
    "Argmax": extreme(torch.argmax),
    "Argmin": extreme(torch.argmin),
    "Pad": pad,
    "PoolAvg2d": nchw(average),
    "PoolMax2d": nchw(
        lambda t, p: functional.max_pool2d(padded(t, p, -torch.inf), p["filter_size"], p["stride"])
    ),
    "Resize": resized_cubic,
    "ResizeBilinear": resized,
    "ResizeNearestNeighbor": nearest,
    "GridSample": grid_sample,
    "TransposeConv2d": transpose_conv2d,
    "PoolAvg3d": pool3d(functional.avg_pool3d, 0.0),
    "PoolMax3d": pool3d(functional.max_pool3d, -torch.inf),
    "Col2Im": col2im,
    "DepthToSpace": nchw(depth_to_space),
    "SpaceToDepth": nchw(space_to_depth),
    "GroupNorm": group_norm,
    "ChannelShuffle": channel_shuffle,
    "Prelu": lambda x, p, *_: torch.where(x[0] > 0, x[0], x[0] * x[1]),
    "ElementWiseUnary": lambda x, p, *_: {10: torch.reciprocal}[p["operation"]](x[0]),
}
