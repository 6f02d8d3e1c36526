"""PyTorch's and ONNX's answers for resized images, and for reads at positions between pixels."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's custom

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Inputs, NoOracle, Params, T
from opdb.measure.conformance.executors.onnx_nodes import node


def _onnx_resize(config: OpConfig, x: T, **attributes: Any) -> T:
    """ONNX's reference, used because PyTorch lacks some modes; channels first."""
    y = config.outputs[0].shape
    sizes = np.array([y[0], y[-1], *y[1:-1]], dtype=np.int64)
    made = node("Resize", x.movedim(-1, 1).numpy(), None, None, sizes, **attributes)
    return torch.from_numpy(made.astype(np.float64)).movedim(1, -1)


def resize(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """Maps QNN's parameters to ONNX's, which are the same under other names."""
    method = ("nearest", "linear", "cubic")[params.get("interpolation_mode", 0)]
    places = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    rounding = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")[params.get("nearest_mode", 0)]
    more: dict[str, Any] = {"nearest_mode": rounding} if method == "nearest" else {}
    if method == "cubic":
        more = {"cubic_coeff_a": params.get("cubic_coeff", -0.75)}
    if params.get("exclude_outside", False):
        if method != "cubic":
            raise NoOracle("ONNX excludes what lies outside of cubic interpolation alone")
        more["exclude_outside"] = 1
    place = places[params.get("transformation_mode", 0)]
    return [_onnx_resize(config, inputs[0], mode=method, coordinate_transformation_mode=place, **more)]


def _place(params: Params) -> str:
    if params.get("align_corners", False):
        return "align_corners"
    return "half_pixel" if params.get("half_pixel_centers", False) else "asymmetric"


def resize_bilinear(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    if params.get("antialias", False):
        if params.get("align_corners", False) or not params.get("half_pixel_centers", False):
            raise NoOracle("the documents do not say how antialias goes with these places")
        y = F.interpolate(
            inputs[0].movedim(-1, 1), config.outputs[0].shape[1:3], mode="bilinear", antialias=True
        )
        return [y.movedim(1, -1)]
    place = _place(params)
    return [_onnx_resize(config, inputs[0], mode="linear", coordinate_transformation_mode=place)]


def resize_nearest(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """TensorFlow's version: the pixel under the center, or under the origin; aligned corners round up at ties."""
    place = _place(params)
    if place == "half_pixel":
        y = F.interpolate(inputs[0].movedim(-1, 1), config.outputs[0].shape[1:3], mode="nearest-exact")
        return [y.movedim(1, -1)]
    rounding = "floor" if place == "asymmetric" else "round_prefer_ceil"
    more = {"coordinate_transformation_mode": place, "nearest_mode": rounding}
    return [_onnx_resize(config, inputs[0], mode="nearest", **more)]


def grid_sample(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    if re.fullmatch(r"[iu]\d+", config.outputs[0].dtype):
        raise NoOracle("the documents do not say how what lies between pixels becomes a whole number")
    y = F.grid_sample(
        inputs[0].movedim(-1, 1),
        inputs[1],
        mode=("bilinear", "nearest")[params.get("mode", 0)],
        padding_mode=("zeros", "border", "reflection")[params.get("padding_mode", 0)],
        align_corners=bool(params.get("align_corners", False)),
    )
    return [y.movedim(1, -1)]


def crop_and_resize(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """TensorFlow's version, whose boxes have their corners at pixel centers, through grid_sample."""
    image, boxes, batch = inputs
    _, height, width, _ = config.outputs[0].shape
    y1, x1, y2, x2 = boxes.unbind(-1)

    def places(low: T, high: T, n: int) -> T:
        if n == 1:
            return ((low + high) / 2).reshape(-1, 1)
        return low.reshape(-1, 1) + (high - low).reshape(-1, 1) * torch.linspace(0, 1, n, dtype=low.dtype)

    rows, columns = places(y1, y2, height), places(x1, x2, width)
    grid = torch.stack(
        [columns.unsqueeze(1).expand(-1, height, -1), rows.unsqueeze(2).expand(-1, -1, width)], -1
    )
    if params.get("interpolation_mode", 0) == 1 and bool((image.shape[1] > 1) | (image.shape[2] > 1)):
        raise NoOracle("PyTorch rounds ties to the even pixel")
    y = F.grid_sample(
        image[batch.long()].movedim(-1, 1), grid * 2 - 1, padding_mode="border", align_corners=True
    ).movedim(1, -1)
    inside = ((grid >= 0) & (grid <= 1)).all(-1, keepdim=True)
    return [torch.where(inside, y, params.get("extrapolation_value", 0.0))]


def correlation(config: OpConfig, inputs: Inputs, params: Params) -> list[T]:
    """The documents leave the scale open: QNN CPU 2.47 takes the mean over the channels."""
    a, b, far = *inputs, params["displacement"]
    width = a.shape[2]
    columns = []
    for d in range(-far, far + 1):
        off = d + params["shift"]
        moved = torch.zeros_like(b)
        low, high = max(0, -off), min(width, width - off)
        if low < high:
            moved[:, :, low:high] = b[:, :, low + off : high + off]
        columns.append(torch.mean(a * moved, -1))
    return [torch.stack(columns, -1)]
