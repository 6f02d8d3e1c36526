"""One module for each use of ATen's core operators that a single mapping or a short chain expresses."""

from __future__ import annotations

import torch
from modules import IMAGE, TRUTH, Case, X, aten, f
from torch import Tensor, nn
from torch.nn import functional

PICK = torch.tensor([2, 0, 2])
ROWS = torch.tensor([[0, 3, 1], [2, 2, 0]])
INSIDE = torch.tensor([[-0.9, -0.25, 0.0], [0.3, 0.75, 0.99]])
ABOVE = torch.tensor([[0.3, 0.75, 1.0], [2.5, 7.0, 40.0]])
PLACES = torch.rand(2, 3, 5, 2, generator=torch.Generator().manual_seed(3)) * 2.6 - 1.3
SMALL = torch.tensor([[-1.5, -0.5, 0.25], [1.0, 1.4, -1.25]])
FRACTIONS = torch.tensor([[-2.5, -0.75, 0.0], [0.5, 1.75, 3.0]])

VOLUME = (2, 3, 4, 6, 5)


class Statistics(nn.Module):
    """A normalization with statistics as after training."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        nn.init.uniform_(norm.running_mean, -1, 1)
        nn.init.uniform_(norm.running_var, 0.05, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return y


class CoreBatchNorm(nn.BatchNorm2d):
    """BatchNorm2d as the operator that PyTorch's decompositions produce."""

    def forward(self, x: Tensor) -> Tensor:
        held = (self.weight, self.bias, self.running_mean, self.running_var)
        y: Tensor = aten._native_batch_norm_legit_no_training.default(x, *held, 0.1, 1e-3)[0]
        return y


def grid(mode: int, padding: int, corners: bool) -> Case:
    """A grid that reaches beyond the image, in every mode."""
    call = f(lambda x, places: aten.grid_sampler_2d.default(x, places, mode, padding, corners))
    return Case(f"grid_{mode}_{padding}_{corners}", call, (IMAGE, PLACES))


def scalar(op: str, shape: object) -> Case:
    """A case with a tensor and a number as operands."""
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
    Case("pad_replicate", f(lambda x: aten.replication_pad2d.default(x, [1, 2, 0, 1])), (IMAGE,)),
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
    Case(
        "upsample_by_a_factor",
        f(lambda x: functional.interpolate(x, scale_factor=1.7, mode="bilinear")),
        (IMAGE,),
    ),
    Case("upsample_nearest", f(lambda x: functional.interpolate(x, (13, 5))), (IMAGE,)),
    Case("upsample_nearest_by_a_factor", f(lambda x: functional.interpolate(x, scale_factor=1.7)), (IMAGE,)),
    *(grid(mode, padding, corners) for mode in (0, 1) for padding in (0, 1, 2) for corners in (False, True)),
    Case(
        "transposed",
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=(1, 0)),
        (IMAGE,),
    ),
    Case(
        "transposed_groups",
        lambda: nn.ConvTranspose2d(4, 6, (2, 3), groups=2, bias=False),
        (IMAGE,),
    ),
    Case("transposed_dilated", lambda: nn.ConvTranspose2d(4, 6, 3, dilation=2), (IMAGE,)),
    Case(
        "convolution_transposed",
        f(lambda x, w: aten.convolution.default(x, w, None, [2, 2], [0, 1], [1, 1], True, [0, 0], 1)),
        (IMAGE, torch.randn(4, 3, 3, 2)),
    ),
    Case("conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2), ((2, 4, 11),)),
    Case("conv1d_groups", lambda: nn.Conv1d(4, 6, 3, groups=2, bias=False), ((2, 4, 11),)),
    Case(
        "convolution_line",
        f(lambda x, w: aten.convolution.default(x, w, None, [1], [1], [1], False, [0], 1)),
        ((2, 4, 11), torch.randn(3, 4, 3)),
    ),
    Case("avg_pool3d", lambda: nn.AvgPool3d((2, 3, 2), 2, padding=(0, 1, 1)), (VOLUME,)),
    Case("avg_pool3d_not_counted", lambda: nn.AvgPool3d(3, 2, padding=1, count_include_pad=False), (VOLUME,)),
    Case("adaptive_avg_pool3d", f(lambda x: aten._adaptive_avg_pool3d.default(x, [2, 3, 1])), (VOLUME,)),
    Case(
        "max_pool3d",
        f(lambda x: aten.max_pool3d_with_indices.default(x - 4, [2, 3, 2], [2, 2, 2], [0, 1, 1])[0]),
        (VOLUME,),
    ),
    Case(
        "col2im",
        f(lambda x: aten.col2im.default(x, [5, 6], [2, 3], [1, 1], [0, 1], [1, 2])),
        ((2, 24, 12),),
    ),
    Case("col2im_one", f(lambda x: functional.fold(x, (7, 9), (2, 3), (2, 1), 1, (1, 2))), ((24, 35),)),
    Case("bits_and", f(torch.bitwise_and), TRUTH),
    Case("bits_or", f(torch.bitwise_or), TRUTH),
    Case("bits_xor", f(torch.bitwise_xor), TRUTH),
    Case("bits_not", f(torch.bitwise_not), TRUTH[:1]),
    Case("bits_of_numbers", f(torch.bitwise_and), (PICK.int(), PICK.int()), ()),
    Case("power_of_a_number", f(lambda x: aten.pow.Scalar(2.5, x)), (SMALL,)),
    Case("prod_of_all", f(torch.prod), (SMALL,), backends=("CPU",)),
    Case(
        "pad_replicate_volume",
        f(lambda x: aten.replication_pad3d.default(x, [1, 2, 0, 1, 1, 1])),
        (VOLUME,),
    ),
    Case("softmax_of_a_type", f(lambda x: torch.softmax(x, 1, dtype=torch.float32)), (X,)),
    Case("log_softmax_of_a_type", f(lambda x: torch.log_softmax(x, -1, dtype=torch.float32)), (X,)),
    Case("batch_norm", lambda: Statistics(nn.BatchNorm2d(4, eps=0.1)), (IMAGE,)),
    Case("batch_norm_plain", lambda: Statistics(nn.BatchNorm1d(3, affine=False)), (X,)),
    Case("batch_norm_core", lambda: Statistics(CoreBatchNorm(4)), (IMAGE,)),
    Case("asinh", f(torch.asinh), (FRACTIONS,)),
    Case("acosh", f(torch.acosh), (ABOVE + 0.75,)),
    Case("clamp_tensors", f(torch.clamp), (X, torch.tensor([-0.5, 0.0, 0.25, -1.0]), torch.tensor([0.5]))),
    Case("argmax_of_all", f(torch.argmax), (X,)),
    Case("argmin_of_all", f(torch.argmin), (X,)),
)
