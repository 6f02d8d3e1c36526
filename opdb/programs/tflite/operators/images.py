"""Image operators: convolutions, pools, resizing, blocks of pixels.  TFLite keeps images as [N, H, W, C]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tflite

from opdb.programs.tflite.graph import Call, Unreadable


def _padding(sizes: Sequence[tuple[int, int, int, int]], padding: int) -> list[int]:
    """ONNX's ``pads`` for (input, filter, stride, dilation) of each dimension; TFLite's SAME puts the odd one at the end."""
    if padding == tflite.Padding.VALID:
        return [0] * (2 * len(sizes))
    totals = [max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n) for n, k, s, d in sizes]
    return [t // 2 for t in totals] + [t - t // 2 for t in totals]


def _window(call: Call, i: int, kernel: Sequence[int], options: Any) -> dict[str, list[int]]:
    strides = [options.StrideH(), options.StrideW()]
    dilations = (
        [options.DilationHFactor(), options.DilationWFactor()]
        if hasattr(options, "DilationHFactor")
        else [1, 1]
    )
    sizes = list(zip(call.shape(i)[1:3], kernel, strides, dilations, strict=True))
    window = {
        "kernel_shape": list(kernel),
        "strides": strides,
        "pads": _padding(sizes, options.Padding()),
    }
    return window | ({"dilations": dilations} if dilations != [1, 1] else {})


def _bias(call: Call, i: int) -> list[str]:
    return [call.floats(i)] if call.has(i) else []


def _conv_2d(call: Call) -> None:
    options, filters = call.options(tflite.Conv2DOptions), call.shape(1)
    group = call.shape(0)[3] // filters[3]
    window = _window(call, 0, filters[1:3], options)
    made = call.node(
        "Conv", call.image(0), call.weight(1, (0, 3, 1, 2)), *_bias(call, 2), group=group, **window
    )
    call.give_image(made, options.FusedActivationFunction())


def _depthwise_conv_2d(call: Call) -> None:
    options, filters = call.options(tflite.DepthwiseConv2DOptions), call.shape(1)
    _, height, width, channels = filters
    window = _window(call, 0, (height, width), options)
    weight = call.weight(1, (3, 0, 1, 2), (channels, 1, height, width))
    made = call.node("Conv", call.image(0), weight, *_bias(call, 2), group=call.shape(0)[3], **window)
    call.give_image(made, options.FusedActivationFunction())


def _transpose_conv(call: Call) -> None:
    """Inputs: the shape of the result, the filters [O, H, W, I], the image, a bias."""
    options, (_, *kernel, _) = call.options(tflite.TransposeConvOptions), call.shape(1)
    strides = [options.StrideH(), options.StrideW()]
    totals = [
        (n - 1) * s + k - m
        for n, s, k, m in zip(call.shape(2)[1:3], strides, kernel, call.result().shape[1:3], strict=True)
    ]
    before = [max(t, 0) // 2 for t in totals]
    made = call.node(
        "ConvTranspose",
        call.image(2),
        call.weight(1, (3, 0, 1, 2)),
        *_bias(call, 3),
        kernel_shape=list(kernel),
        strides=strides,
        pads=before + [max(t, 0) - b for t, b in zip(totals, before, strict=True)],
        output_padding=[max(-t, 0) for t in totals],
    )
    call.give_image(made, options.FusedActivationFunction())


def _conv_3d(call: Call) -> None:
    options, filters = call.options(tflite.Conv3DOptions), call.shape(1)
    strides = [options.StrideD(), options.StrideH(), options.StrideW()]
    dilations = [options.DilationDFactor(), options.DilationHFactor(), options.DilationWFactor()]
    sizes = list(zip(call.shape(0)[1:4], filters[:3], strides, dilations, strict=True))
    made = call.node(
        "Conv",
        call.image(0),
        call.weight(1, (4, 3, 0, 1, 2)),
        *_bias(call, 2),
        kernel_shape=list(filters[:3]),
        strides=strides,
        dilations=dilations,
        pads=_padding(sizes, options.Padding()),
    )
    call.give_image(made, options.FusedActivationFunction())


def _pool(op_type: str) -> Callable[[Call], None]:
    def write(call: Call) -> None:
        options = call.options(tflite.Pool2DOptions)
        window = _window(call, 0, (options.FilterHeight(), options.FilterWidth()), options)
        call.give_image(call.node(op_type, call.image(0), **window), options.FusedActivationFunction())

    return write


def _l2_pool_2d(call: Call) -> None:
    options = call.options(tflite.Pool2DOptions)
    window = _window(call, 0, (options.FilterHeight(), options.FilterWidth()), options)
    image = call.image(0)
    means = call.node("AveragePool", call.node("Mul", image, image), **window)
    call.give_image(call.node("Sqrt", means), options.FusedActivationFunction())


def _resize(call: Call, mode: str, options: Any, **attributes: str) -> None:
    elsewhere = "half_pixel" if options.HalfPixelCenters() else "asymmetric"
    where = "align_corners" if options.AlignCorners() else elsewhere
    height, width = (int(n) for n in call.known(1, "size"))
    n, _, _, channels = call.shape(0)
    sizes = call.ints([n, channels, height, width])
    made = call.node(
        "Resize", call.image(0), "", "", sizes, mode=mode, coordinate_transformation_mode=where, **attributes
    )
    call.give_image(made)


def _resize_bilinear(call: Call) -> None:
    _resize(call, "linear", call.options(tflite.ResizeBilinearOptions))


def _resize_nearest_neighbor(call: Call) -> None:
    options = call.options(tflite.ResizeNearestNeighborOptions)
    exact = options.AlignCorners() or options.HalfPixelCenters()
    _resize(call, "nearest", options, nearest_mode="round_prefer_ceil" if exact else "floor")


def _depth_to_space(call: Call) -> None:
    size = call.options(tflite.DepthToSpaceOptions).BlockSize()
    call.give_image(call.node("DepthToSpace", call.image(0), blocksize=size, mode="DCR"))


def _space_to_depth(call: Call) -> None:
    size = call.options(tflite.SpaceToDepthOptions).BlockSize()
    call.give_image(call.node("SpaceToDepth", call.image(0), blocksize=size))


def _space_to_batch_nd(call: Call) -> None:
    blocks = [int(n) for n in call.known(1, "block shape")]
    paddings = call.known(2, "paddings").astype(int)
    n, *rest = call.shape(0)
    spatial, remaining = rest[: len(blocks)], rest[len(blocks) :]
    name = call.floats(0)
    if paddings.any():
        ends = [[0, 0], *paddings.tolist(), *[[0, 0]] * len(remaining)]
        name = call.node("Pad", name, call.ints([e[0] for e in ends] + [e[1] for e in ends]))
        spatial = [s + a + b for s, (a, b) in zip(spatial, paddings.tolist(), strict=True)]
    parted = [n, *(v for s, b in zip(spatial, blocks, strict=True) for v in (s // b, b)), *remaining]
    count = len(blocks)
    order = [
        *(2 + 2 * i for i in range(count)), 0, *(1 + 2 * i for i in range(count)),
        *range(1 + 2 * count, len(parted)),
    ]  # fmt: skip
    call.give(call.reshaped(call.turned(call.reshaped(name, parted), order), call.result().shape))


def _batch_to_space_nd(call: Call) -> None:
    blocks = [int(n) for n in call.known(1, "block shape")]
    crops = call.known(2, "crops").astype(int).tolist()
    n, *rest = call.shape(0)
    spatial, remaining = rest[: len(blocks)], rest[len(blocks) :]
    count, batch = len(blocks), n // int(np.prod(blocks))
    order = [
        count, *(v for i in range(count) for v in (count + 1 + i, i)),
        *range(2 * count + 1, 2 * count + 1 + len(remaining)),
    ]  # fmt: skip
    sizes = [s * b for s, b in zip(spatial, blocks, strict=True)]
    name = call.turned(call.reshaped(call.floats(0), [*blocks, batch, *spatial, *remaining]), order)
    name = call.reshaped(name, [batch, *sizes, *remaining])
    if any(a or b for a, b in crops):
        starts, ends = [a for a, _ in crops], [s - b for s, (_, b) in zip(sizes, crops, strict=True)]
        axes = call.ints(range(1, 1 + count))
        name = call.node("Slice", name, call.ints(starts), call.ints(ends), axes)
    call.give(name)


def _local_response_normalization(call: Call) -> None:
    """ONNX divides alpha by the number of channels that it sums, TFLite does not."""
    options = call.options(tflite.LocalResponseNormalizationOptions)
    size = 2 * options.Radius() + 1
    if options.Radius() < 0:
        raise Unreadable(f"the radius {options.Radius()} is negative")
    call.give_image(
        call.node(
            "LRN",
            call.image(0),
            size=size,
            alpha=options.Alpha() * size,
            beta=options.Beta(),
            bias=options.Bias(),
        )
    )


OPERATORS: dict[str, Callable[[Call], None]] = {
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "BATCH_TO_SPACE_ND": _batch_to_space_nd,
    "CONV_2D": _conv_2d,
    "CONV_3D": _conv_3d,
    "DEPTHWISE_CONV_2D": _depthwise_conv_2d,
    "DEPTH_TO_SPACE": _depth_to_space,
    "L2_POOL_2D": _l2_pool_2d,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response_normalization,
    "MAX_POOL_2D": _pool("MaxPool"),
    "RESIZE_BILINEAR": _resize_bilinear,
    "RESIZE_NEAREST_NEIGHBOR": _resize_nearest_neighbor,
    "SPACE_TO_BATCH_ND": _space_to_batch_nd,
    "SPACE_TO_DEPTH": _space_to_depth,
    "TRANSPOSE_CONV": _transpose_conv,
}
