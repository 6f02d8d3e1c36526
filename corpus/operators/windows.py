"""Cases of ops that read windows: pools, normalizations, convolutions, resizes, sorting."""

from __future__ import annotations

import torch
from core_modules import Statistics
from modules import IMAGE, Case, X, aten, f
from torch import nn
from torch.nn import functional

LINE, VOLUME = (2, 4, 11), (2, 3, 4, 6, 5)


def average(name: str, n: int, *args: object, shape: object = None, **more: object) -> Case:
    """A case of average pooling in n dimensions."""
    module = getattr(nn, f"AvgPool{n}d")
    return Case(name, lambda: module(*args, **more), (shape or (LINE, IMAGE, VOLUME)[n - 1],))


def largest(name: str, n: int, *args: object, shape: object = None, **more: object) -> Case:
    """A case of maximum pooling in n dimensions."""
    module = getattr(nn, f"MaxPool{n}d")
    return Case(name, lambda: module(*args, **more), (shape or (LINE, IMAGE, VOLUME)[n - 1],))


POOLS = (
    average("avg_pool1d", 1, 3, 2),
    average("avg_pool1d_padded", 1, 3, 2, 1),
    average("avg_pool1d_ceil", 1, 4, 3, 1, True),
    average("avg_pool1d_not_counted", 1, 2, 2, 1, False, False),
    average("avg_pool1d_unbatched", 1, 3, shape=(4, 11)),
    average("avg_pool_small_padded", 2, 2, 2, 1),
    average("avg_pool_small_padded_by_one", 2, 2, 1, 1),
    average("avg_pool_small_not_counted", 2, 2, 1, 1, False, False),
    average("avg_pool_flat_padded", 2, (2, 1), 1, (1, 0)),
    average("avg_pool_oblong_padded", 2, (2, 3), 2, 1),
    average("avg_pool_even_padded", 2, (2, 4), 2, 1),
    average("avg_pool_large_padded", 2, 4, 2, 2),
    average("avg_pool_ceil", 2, 3, 2, ceil_mode=True, shape=(1, 3, 8, 6)),
    average("avg_pool_ceil_padded", 2, 3, 2, 1, ceil_mode=True, shape=(1, 3, 8, 6)),
    average("avg_pool_ceil_not_counted", 2, 3, 2, 1, True, False, shape=(1, 3, 8, 6)),
    average("avg_pool_divided", 2, (3, 2), 2, 1, divisor_override=5),
    average("avg_pool_unbatched", 2, 3, 2, 1, shape=(3, 8, 6)),
    average("avg_pool3d_ceil", 3, 3, 2, 1, True),
    average("avg_pool3d_ceil_not_counted", 3, (2, 3, 2), 2, (0, 1, 1), True, False),
    average("avg_pool3d_divided", 3, 2, divisor_override=3),
    average("avg_pool3d_unbatched", 3, 2, 1, 1, shape=(3, 4, 6, 5)),
    average("avg_pool3d_small_padded", 3, 2, 2, 1),
    average("avg_pool3d_flat_padded", 3, (1, 2, 2), 1, (0, 1, 1)),
    average("avg_pool3d_oblong_padded", 3, (2, 2, 3), 2, 1),
    Case("adaptive_avg_pool1d", lambda: nn.AdaptiveAvgPool1d(4), (LINE,)),
    Case("adaptive_avg_pool_module", lambda: nn.AdaptiveAvgPool2d((3, 1)), (IMAGE,)),
    Case("adaptive_avg_pool_odd", lambda: nn.AdaptiveAvgPool2d((4, 5)), (IMAGE,)),
    Case("adaptive_avg_pool_overlapping", lambda: nn.AdaptiveAvgPool2d((2, 3)), ((1, 2, 3, 4),)),
    Case("adaptive_avg_pool_even", lambda: nn.AdaptiveAvgPool2d((2, 2)), ((1, 3, 9, 13),)),
    Case("adaptive_avg_pool1d_overlapping", lambda: nn.AdaptiveAvgPool1d(2), ((1, 2, 3),)),
    Case("adaptive_avg_pool3d_overlapping", lambda: nn.AdaptiveAvgPool3d((2, 3, 4)), ((1, 2, 3, 4, 5),)),
    Case("adaptive_avg_pool_larger", lambda: nn.AdaptiveAvgPool2d((11, 3)), (IMAGE,)),
    Case("adaptive_avg_pool_core", f(lambda x: aten._adaptive_avg_pool2d.default(x, [4, 3])), (IMAGE,)),
    Case("adaptive_avg_pool3d_module", lambda: nn.AdaptiveAvgPool3d((2, 3, 1)), (VOLUME,)),
    Case("adaptive_avg_pool3d_odd", lambda: nn.AdaptiveAvgPool3d((3, 4, 2)), (VOLUME,)),
    Case("adaptive_avg_pool3d_core", f(lambda x: aten._adaptive_avg_pool3d.default(x, [3, 4, 5])), (VOLUME,)),
    largest("max_pool1d", 1, 3, 2),
    largest("max_pool1d_padded", 1, 3, 2, 1),
    largest("max_pool1d_ceil", 1, 3, 2, 0, 2, ceil_mode=True),
    largest("max_pool1d_unbatched", 1, 3, shape=(4, 11)),
    largest("max_pool_small_padded", 2, 2, 2, 1),
    largest("max_pool_padded_module", 2, 3, 2, 1),
    largest("max_pool_ceil", 2, 3, 2, ceil_mode=True, shape=(1, 3, 8, 6)),
    largest("max_pool_ceil_padded", 2, 2, 2, 1, ceil_mode=True),
    largest("max_pool_dilated", 2, (3, 2), 1, (1, 0), (2, 3)),
    largest("max_pool_unbatched", 2, 3, 2, shape=(3, 8, 6)),
    Case(
        "max_pool_ceil_core",
        f(lambda x: aten.max_pool2d_with_indices.default(x - 4, [3], [2], [1], [2], True)[0]),
        (IMAGE,),
    ),
    Case("max_pool_places", lambda: nn.MaxPool2d(3, 2, return_indices=True), (IMAGE,), ()),
    largest("max_pool3d_module", 3, 2, 2),
    largest("max_pool3d_padded", 3, 3, 2, 1),
    largest("max_pool3d_dilated", 3, 2, dilation=2, ceil_mode=True),
    largest("max_pool3d_unbatched", 3, 2, 1, shape=(3, 4, 6, 5)),
    Case(
        "max_pool3d_core",
        f(lambda x: aten.max_pool3d_with_indices.default(x, [3], [2], [1], [1], True)[0]),
        (VOLUME,),
    ),
    Case("adaptive_max_pool1d", lambda: nn.AdaptiveMaxPool1d(4), (LINE,)),
    Case("adaptive_max_pool", lambda: nn.AdaptiveMaxPool2d((3, 1)), (IMAGE,)),
    Case("adaptive_max_pool_odd", lambda: nn.AdaptiveMaxPool2d((4, 5)), (IMAGE,)),
    Case("adaptive_max_pool3d", lambda: nn.AdaptiveMaxPool3d((2, 4, 3)), (VOLUME,)),
    Case("adaptive_max_pool_places", lambda: nn.AdaptiveMaxPool2d(3, return_indices=True), (IMAGE,), ()),
)

NORMS = (
    Case("group_norm_line", lambda: nn.GroupNorm(2, 4, eps=1e-3), (LINE,)),
    Case("group_norm_flat", lambda: nn.GroupNorm(2, 6), ((3, 6),)),
    Case("group_norm_volume", lambda: nn.GroupNorm(3, 3, affine=False), (VOLUME,)),
    Case(
        "group_norm_core_line",
        f(lambda x, g: aten.native_group_norm.default(x, g, None, 2, 4, 11, 4, 1e-2)[0]),
        (LINE, (4,)),
    ),
    Case("instance_norm", lambda: nn.InstanceNorm2d(4, eps=0.1), (IMAGE,)),
    Case("instance_norm_affine", lambda: nn.InstanceNorm2d(4, affine=True), (IMAGE,)),
    Case("instance_norm_line", lambda: nn.InstanceNorm1d(4, affine=True, eps=1e-3), (LINE,)),
    Case("instance_norm_volume", lambda: nn.InstanceNorm3d(3), (VOLUME,)),
    Case(
        "instance_norm_statistics",
        lambda: Statistics(nn.InstanceNorm2d(4, track_running_stats=True, affine=True, eps=0.01)),
        (IMAGE,),
    ),
    Case("batch_norm_of_batch", lambda: nn.BatchNorm2d(4, track_running_stats=False, eps=0.01), (IMAGE,)),
    Case(
        "batch_norm_no_stats",
        f(lambda x, w: aten._native_batch_norm_legit.no_stats(x, w, None, True, 0.1, 1e-3)[0]),
        (IMAGE, (4,)),
    ),
    Case("batch_norm_volume", lambda: Statistics(nn.BatchNorm3d(3)), (VOLUME,)),
    Case("rms_norm_no_epsilon", lambda: nn.RMSNorm(6), ((2, 4, 8, 6),)),
    Case("rms_norm_three_axes", lambda: nn.RMSNorm((4, 8, 6), eps=1e-3), ((2, 4, 8, 6),)),
    Case("local_response_norm", lambda: nn.LocalResponseNorm(3, alpha=0.1), (IMAGE,)),
    Case("local_response_norm_volume", lambda: nn.LocalResponseNorm(2), (VOLUME,)),
    Case(
        "layer_norm_core_three",
        f(lambda x: aten.native_layer_norm.default(x, [4, 9, 7], None, None, 1e-3)[0]),
        (IMAGE,),
    ),
)


def convolution(name: str, kind: str, *args: object, shape: object, **more: object) -> Case:
    """A case of a convolution module of torch.nn."""
    return Case(name, lambda: getattr(nn, kind)(*args, **more), (shape,), off={"HTP": 1e-2})


CORE = aten.convolution.default
CONVOLUTIONS = (
    convolution("conv1d_unbatched", "Conv1d", 4, 6, 3, padding=1, shape=(4, 11)),
    convolution("conv1d_depthwise", "Conv1d", 4, 8, 3, groups=4, shape=LINE),
    convolution("conv1d_same", "Conv1d", 4, 6, 4, padding="same", dilation=2, shape=LINE),
    convolution("conv1d_valid", "Conv1d", 4, 6, 4, padding="valid", shape=LINE),
    convolution("conv2d_unbatched", "Conv2d", 4, 6, 3, padding=1, shape=(4, 9, 7)),
    convolution("conv2d_same", "Conv2d", 4, 6, (4, 3), padding="same", dilation=(1, 2), shape=IMAGE),
    convolution("conv2d_multiplied", "Conv2d", 4, 8, 3, groups=4, shape=IMAGE),
    convolution("conv3d_groups", "Conv3d", 4, 6, (2, 3, 3), groups=2, shape=(1, 4, 4, 6, 5)),
    convolution("conv3d_depthwise", "Conv3d", 3, 3, 3, groups=3, padding=1, shape=VOLUME),
    convolution("conv3d_unbatched", "Conv3d", 3, 4, 2, shape=(3, 4, 6, 5)),
    convolution("conv3d_same", "Conv3d", 3, 4, (2, 3, 3), padding="same", shape=VOLUME),
    Case("conv2d_of_weights", f(functional.conv2d), (IMAGE, (6, 4, 3, 3), (6,))),
    Case("conv3d_of_weights", f(functional.conv3d), (VOLUME, (4, 3, 2, 2, 2))),
    Case(
        "convolution_volume",
        f(lambda x, w: CORE(x, w, None, [2], [1], [1], False, [0], 1)),
        (VOLUME, (4, 3, 3, 3, 3)),
        off={"HTP": 1e-2},
    ),
    convolution("conv_transpose1d", "ConvTranspose1d", 4, 6, 3, 2, 1, 1, shape=LINE),
    convolution("conv_transpose1d_groups", "ConvTranspose1d", 4, 6, 3, 2, 1, 1, groups=2, shape=LINE),
    convolution("conv_transpose1d_unbatched", "ConvTranspose1d", 4, 6, 3, dilation=2, shape=(4, 11)),
    convolution("conv_transpose_groups", "ConvTranspose2d", 4, 6, (2, 3), groups=2, shape=IMAGE),
    convolution("conv_transpose_depthwise", "ConvTranspose2d", 4, 4, 3, 2, 1, 1, groups=4, shape=IMAGE),
    convolution(
        "conv_transpose_dilated", "ConvTranspose2d", 4, 6, 3, (2, 3), (1, 0), dilation=2, shape=IMAGE
    ),
    convolution("conv_transpose_unbatched", "ConvTranspose2d", 4, 6, 3, 2, shape=(4, 9, 7)),
    convolution("conv_transpose_cut", "ConvTranspose2d", 4, 6, 2, 1, 1, groups=2, shape=IMAGE),
    convolution("conv_transpose3d", "ConvTranspose3d", 3, 4, 3, 2, 1, 1, shape=VOLUME),
    convolution("conv_transpose3d_groups", "ConvTranspose3d", 4, 4, 2, 2, groups=2, shape=(1, 4, 3, 4, 2)),
    *(
        Case(
            f"convolution_transposed_{n}_{groups}_{gap}",
            f(
                lambda x, w, n=n, groups=groups, gap=gap: CORE(
                    x, w, None, [2] * n, [1] * n, [gap] * n, True, [1] * n, groups
                )
            ),
            ((1, 4, *(3, 4, 2)[:n]), (4, 4 // groups, *[3] * n)),
            ("CPU", "HTP") if n < 3 else ("CPU",),  # HTP cannot turn a runtime filter of rank 6
            off={"HTP": 1e-2},
        )
        for n in (1, 2, 3)
        for groups, gap in ((1, 1), (2, 1))
    ),
)


def resized(name: str, mode: str, shape: object, **more: object) -> Case:
    """A resize by torch.nn.functional."""
    return Case(name, f(lambda x: functional.interpolate(x, mode=mode, **more)), (shape,))


def padded(name: str, mode: str, amounts: list[int], shape: object) -> Case:
    return Case(name, f(lambda x: functional.pad(x, amounts, mode=mode)), (shape,))


RESIZES = (
    resized("nearest_line", "nearest", LINE, size=7),
    resized("nearest_line_by", "nearest", LINE, scale_factor=2),
    resized("nearest_down", "nearest", IMAGE, scale_factor=0.5),
    resized("nearest_by", "nearest", IMAGE, scale_factor=(1.5, 2.3)),
    resized("nearest_volume", "nearest", VOLUME, size=(3, 9, 5)),
    resized("nearest_volume_by", "nearest", VOLUME, scale_factor=1.7),
    resized("nearest_exact_line", "nearest-exact", LINE, size=7),
    resized("nearest_exact", "nearest-exact", IMAGE, size=(13, 5)),
    resized("nearest_exact_by", "nearest-exact", IMAGE, scale_factor=1.7),
    resized("nearest_exact_volume", "nearest-exact", VOLUME, scale_factor=(2, 0.7, 1.5)),
    resized("linear", "linear", LINE, size=17),
    resized("linear_by", "linear", LINE, scale_factor=1.3, align_corners=True),
    resized("bilinear_by", "bilinear", IMAGE, scale_factor=(2, 0.6)),
    resized("bilinear_corners_by", "bilinear", IMAGE, scale_factor=1.7, align_corners=True),
    resized("trilinear", "trilinear", VOLUME, size=(3, 9, 5)),
    resized("trilinear_by", "trilinear", VOLUME, scale_factor=1.5, align_corners=True),
    resized("bicubic", "bicubic", IMAGE, size=(13, 5)),
    resized("bicubic_corners", "bicubic", IMAGE, size=(13, 5), align_corners=True),
    resized("bicubic_by", "bicubic", IMAGE, scale_factor=1.7),
    resized("bilinear_column", "bilinear", IMAGE, size=(4, 1)),
    resized("bilinear_twice", "bilinear", IMAGE, scale_factor=2),
    resized("nearest_three_times", "nearest", IMAGE, scale_factor=(3, 2)),
    *(
        Case(
            f"{kind.strip('_')}_{n}_sizes",
            f(lambda x, kind=kind, n=n: getattr(aten, f"{kind}{n}d").default(x, [5, 11, 3][:n])),
            ((LINE, IMAGE, VOLUME)[n - 1],),
        )
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for n in (1, 2, 3)
    ),
    *(
        Case(
            f"{kind}_sizes",
            f(lambda x, kind=kind, n=n: getattr(aten, kind).default(x, [5, 11, 3][:n], n == 2)),
            ((LINE, IMAGE, VOLUME)[n - 1],),
        )
        for kind, n in (
            ("upsample_linear1d", 1),
            ("upsample_bilinear2d", 2),
            ("upsample_bicubic2d", 2),
            ("upsample_trilinear3d", 3),
        )
    ),
)
MOVES = (
    Case("topk_first", f(lambda x: torch.topk(x, 3, dim=0)), ((9, 4),)),
    Case("topk_middle", f(lambda x: torch.topk(x, 2, 1, largest=False)), (IMAGE,)),
    Case("topk_ints", f(lambda x: torch.topk(x, 2)), (torch.tensor([[3, 9, -1], [5, 2, 4]]),)),
    Case("sort_middle", f(lambda x: torch.sort(x, 1, descending=True)), (X,)),
    Case("sort_first", f(lambda x: torch.sort(x, 0)), ((5, 3),)),
    Case("argsort", f(lambda x: torch.argsort(x, 0, descending=True)), ((5, 3),)),
    Case("pad_reflect_volume", f(lambda x: aten.reflection_pad3d.default(x, [1, 2, 0, 1, 1, 1])), (VOLUME,)),
    Case("pad_replicate_row", f(lambda x: aten.replication_pad1d.default(x, [3, 1])), (LINE,)),
    padded("pad_mode_constant", "constant", [1, 2, 0, 1], IMAGE),
    padded("pad_mode_reflect_line", "reflect", [1, 2], LINE),
    padded("pad_mode_reflect", "reflect", [1, 2, 0, 1], IMAGE),
    padded("pad_mode_replicate", "replicate", [1, 2, 4, 1], IMAGE),
    padded("pad_mode_replicate_unbatched", "replicate", [1, 2, 4, 1], (3, 5, 6)),
    padded("pad_mode_circular", "circular", [1, 2, 0, 1], IMAGE),
    padded("pad_mode_circular_line", "circular", [5, 2], LINE),
    padded("pad_mode_circular_volume", "circular", [1, 2, 0, 1, 1, 1], VOLUME),
    Case("pad_mode_constant_five", f(lambda x: functional.pad(x, [1, 0], value=-2.5)), (LINE,)),
    Case("pad_ints", f(lambda x: functional.pad(x, [1, 2])), (torch.tensor([[3, -4]]),), ()),
    Case("linear_line", lambda: nn.Linear(4, 3), ((4,),)),
    Case("pad_cut", f(lambda x: functional.pad(x, [-1, 2, 0, -3])), (IMAGE,)),
    Case("pad_cut_core", f(lambda x: aten.constant_pad_nd.default(x, [-2, -1, 1, -1], 0.5)), (X,)),
    Case("conv_circular", lambda: nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular"), (IMAGE,)),
    Case("conv_reflect", lambda: nn.Conv1d(4, 3, 3, padding=1, padding_mode="reflect"), (LINE,)),
    Case("pixel_shuffle_unbatched", lambda: nn.PixelShuffle(3), ((18, 2, 4),)),
    Case("pixel_shuffle_many", lambda: nn.PixelShuffle(2), ((2, 3, 4, 2, 5),)),
    Case("pixel_unshuffle_module", lambda: nn.PixelUnshuffle(2), ((2, 3, 4, 6),)),
    Case("embedding_padded", lambda: nn.Embedding(6, 5, padding_idx=2), (torch.tensor([[0, 2, 5]]),)),
    *(
        Case(
            f"grid_volume_{mode}_{beyond}",
            f(lambda x, g, m=mode, b=beyond: aten.grid_sampler_3d.default(x, g, m, b, b == 1)),
            (VOLUME, torch.rand(2, 3, 2, 4, 3, generator=torch.Generator().manual_seed(3)) * 2.6 - 1.3),
            ("CPU",),
        )
        for mode in (0, 1)
        for beyond in (0, 1, 2)
    ),
    Case(
        "grid_cubic",
        f(lambda x, g: aten.grid_sampler_2d.default(x, g, 2, 0, False)),
        (IMAGE, (2, 3, 5, 2)),
        (),
    ),
)
WINDOW_CASES = (*POOLS, *NORMS, *CONVOLUTIONS, *RESIZES, *MOVES)
