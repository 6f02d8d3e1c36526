"""One module for each way in which ATen's core operators are used that one mapping or a short chain expresses."""

from __future__ import annotations

import torch
from modules import IMAGE, Case, X, aten, f
from torch import nn
from torch.nn import functional

PICK = torch.tensor([2, 0, 2])
ROWS = torch.tensor([[0, 3, 1], [2, 2, 0]])
INSIDE = torch.tensor([[-0.9, -0.25, 0.0], [0.3, 0.75, 0.99]])
ABOVE = torch.tensor([[0.3, 0.75, 1.0], [2.5, 7.0, 40.0]])
SMALL = torch.tensor([[-1.5, -0.5, 0.25], [1.0, 1.4, -1.25]])
FRACTIONS = torch.tensor([[-2.5, -0.75, 0.0], [0.5, 1.75, 3.0]])


def scalar(op: str, shape: object) -> Case:
    """An operator of a tensor and a number."""
    return Case(f"{op}_number", f(lambda x: getattr(aten, op).Scalar(x, 0.75)), (shape,))


CORE_CASES = (
    Case("reciprocal", f(torch.reciprocal), (ABOVE,)),
    Case("leaky_relu", lambda: nn.LeakyReLU(0.2), (X,)),
    Case("repeat", f(lambda x: x.repeat(2, 1, 3)), (X,)),
    Case("repeat_more", f(lambda x: x.repeat(2, 1, 1, 2)), (X,)),
    Case("expand", f(lambda x: x.expand(2, -1, 4)), ((1, 3, 1),)),
    Case("expand_more", f(lambda x: x.expand(5, 2, 3)), ((2, 1),)),
    Case("slice", f(lambda x: x[:, 1:3, 1:]), (X,)),
    Case("slice_steps", f(lambda x: x[:, :, -7:9:2]), (IMAGE,)),
    Case("select", f(lambda x: x[:, -1]), (X,)),
    Case("flip", f(lambda x: torch.flip(x, (0, -1))), (X,)),
    Case("index_select", f(lambda x, i: torch.index_select(x, -1, i)), (X, PICK)),
    Case("embedding", lambda: nn.Embedding(6, 5), (ROWS,)),
    Case("topk", f(lambda x: torch.topk(x, 3)), ((4, 9),)),
    Case("topk_smallest", f(lambda x: torch.topk(x, 2, largest=False)), ((4, 9),)),
    Case("sort", f(lambda x: torch.sort(x, descending=True)), ((4, 9),)),
    Case("sort_up", f(torch.sort), ((4, 9),)),
    Case("argmax", f(lambda x: torch.argmax(x, 1)), (X,)),
    Case("argmax_kept", f(lambda x: torch.argmax(x, -1, keepdim=True)), (X,)),
    Case("argmin", f(lambda x: torch.argmin(x, 0)), (X,)),
    Case("pad", f(lambda x: aten.constant_pad_nd.default(x, [1, 2, 0, 3], 0.5)), (X,)),
    Case("pad_reflect", f(lambda x: aten.reflection_pad2d.default(x, [1, 2, 2, 1])), (IMAGE,)),
    Case("pad_reflect_line", f(lambda x: aten.reflection_pad1d.default(x, [1, 2])), (X,)),
    Case("pad_replicate", f(lambda x: aten.replication_pad2d.default(x, [1, 2, 0, 1])), (IMAGE,), ("CPU",)),
    Case("avg_pool", lambda: nn.AvgPool2d(3, 2), (IMAGE,)),
    Case("avg_pool_padded", lambda: nn.AvgPool2d((3, 2), 2, padding=1), (IMAGE,)),
    Case("avg_pool_not_counted", lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), (IMAGE,)),
    Case("adaptive_avg_pool", f(lambda x: aten._adaptive_avg_pool2d.default(x, [3, 1])), (IMAGE,)),
    Case("max_pool", f(lambda x: aten.max_pool2d_with_indices.default(x, [2, 2])[0]), (IMAGE,)),
    Case(
        "max_pool_padded",
        f(lambda x: aten.max_pool2d_with_indices.default(x - 4, [3, 3], [2, 2], [1, 1])[0]),
        (IMAGE,),
    ),
    Case("upsample", f(lambda x: functional.interpolate(x, (18, 21), mode="bilinear")), (IMAGE,)),
    Case(
        "upsample_corners",
        f(lambda x: functional.interpolate(x, (13, 5), mode="bilinear", align_corners=True)),
        (IMAGE,),
    ),
    Case("pixel_shuffle", lambda: nn.PixelShuffle(2), ((1, 8, 3, 5),)),
    Case(
        "group_norm",
        f(lambda x, g, b: aten.native_group_norm.default(x, g, b, 2, 4, 63, 2, 0.1)[0]),
        (IMAGE, (4,), (4,)),
    ),
    Case(
        "group_norm_plain",
        f(lambda x: aten.native_group_norm.default(x, None, None, 2, 4, 63, 2, 1e-5)[0]),
        (IMAGE,),
    ),
    Case("group_norm_module", lambda: nn.GroupNorm(2, 4, eps=0.1), (IMAGE,)),
    Case("max_pool_module", lambda: nn.MaxPool2d(3, 2), (IMAGE,)),
    *(scalar(t, X) for t in ("add", "sub", "mul", "div")),
    *(scalar(t, FRACTIONS + 0.25) for t in ("eq", "ne", "gt", "ge", "lt", "le")),
    Case("add_scalar_alpha", f(lambda x: aten.add.Scalar(x, 0.75, 2)), (X,)),
    Case("pow_scalar", f(lambda x: aten.pow.Tensor_Scalar(x, 3)), (SMALL,)),
    Case("mean_of_all", f(torch.mean), (X,)),
    Case("log2", f(torch.log2), (ABOVE,)),
    Case("log10", f(torch.log10), (ABOVE,)),
    Case("log1p", f(torch.log1p), (ABOVE,)),
    Case("expm1", f(torch.expm1), (SMALL,)),
    Case("sinh", f(torch.sinh), (SMALL,)),
    Case("cosh", f(torch.cosh), (SMALL,)),
    Case("tan", f(torch.tan), (SMALL,), off={"HTP": 2e-2}),
    Case("atanh", f(torch.atanh), (INSIDE,)),
    Case("acos", f(torch.acos), (INSIDE,), ("CPU",)),
    Case("trunc", f(torch.trunc), (FRACTIONS,)),
)
