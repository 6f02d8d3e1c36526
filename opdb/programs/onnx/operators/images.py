"""Sampling of images: Resize, Upsample, GridSample."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value

LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}


def _coordinates(mode: str, n: int, size: int, scale: float, roi: tuple[float, float]) -> Array:
    """The position in [0, n - 1] of each of the ``size`` results, by ONNX's coordinate_transformation_mode."""
    at = np.arange(size, dtype=np.float64)
    if mode == "align_corners":
        return at * (n - 1) / (size - 1) if size > 1 else at * 0
    if mode == "asymmetric":
        return at / scale
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        centre = n / 2 * (1 - size / (n * scale))
        return centre + (at + 0.5) / scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if size > 1 else at * 0
    if mode == "tf_crop_and_resize":
        start, end = roi
        if size > 1:
            return start * (n - 1) + at * (end - start) * (n - 1) / (size - 1)
        return at * 0 + 0.5 * (start + end) * (n - 1)
    raise Unreadable(f"the coordinate_transformation_mode '{mode}' is unknown")


def _nearest(mode: str, at: Array) -> Array:
    made: dict[str, Array] = {
        "round_prefer_floor": np.ceil(at - 0.5),
        "round_prefer_ceil": np.floor(at + 0.5),
        "floor": np.floor(at),
        "ceil": np.ceil(at),
    }
    return made[mode].astype(np.int64)


def _kernel(mode: str, distance: Array, a: float) -> Array:
    x: Array = np.abs(distance)
    if mode == "linear":
        return np.where(x < 1, 1 - x, 0)
    near = ((a + 2) * x - (a + 3)) * x**2 + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _matrix(node: Node, n: int, at: Array, scale: float) -> Array:
    """The weight of each element in each result, [size, n]."""
    mode, exclude = node.get("mode", "nearest"), node.get("exclude_outside", 0)
    stretch = min(scale, 1.0) if node.get("antialias", 0) else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    matrix = np.zeros((len(at), n))
    for row, x in enumerate(at):
        taps = np.arange(floor(x - reach), floor(x + reach) + 2)
        weights = _kernel(mode, (x - taps) * stretch, node.get("cubic_coeff_a", -0.75))
        if exclude:
            weights = weights * ((taps >= 0) & (taps < n))
        np.add.at(matrix[row], np.clip(taps, 0, n - 1), weights / weights.sum())
    return matrix


def _sizes(
    node: Node, x: Tensor, scales: Value, sizes: Value, dims: list[int]
) -> tuple[list[int], list[float]]:
    """Sizes and scales of ``dims``."""
    wanted = node.ints("sizes", sizes)
    if not wanted:
        known = node.get("scales") if scales is None else node.known("scales", scales)
        factors = [float(s) for s in np.asarray(known).reshape(-1)]
        return [floor(x.shape[d] * s) for d, s in zip(dims, factors, strict=True)], factors
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    factors = [w / x.shape[d] for w, d in zip(wanted, dims, strict=True)]
    if policy != "stretch":
        one = min(factors) if policy == "not_larger" else max(factors)
        return [floor(one * x.shape[d] + 0.5) for d in dims], [one] * len(dims)
    return wanted, factors


def _resize(node: Node, x: Tensor, roi: Value = None, scales: Value = None, sizes: Value = None) -> Tensor:
    dims = [d % x.dim() for d in node.ints("axes") or range(x.dim())]
    extents, factors = _sizes(node, x, scales, sizes, dims)
    transformation = node.get("coordinate_transformation_mode", "half_pixel")
    box = node.known("roi", roi) if transformation == "tf_crop_and_resize" else None
    ends = [
        (float(box[i]), float(box[i + len(dims)])) if box is not None else (0.0, 1.0)
        for i in range(len(dims))
    ]
    at = {
        d: (e, s, _coordinates(transformation, x.shape[d], e, s, r))
        for d, e, s, r in zip(dims, extents, factors, ends, strict=True)
        if e != x.shape[d] or s != 1 or transformation == "tf_crop_and_resize"
    }
    whole = _by_interpolate(node, x, at)
    if whole is not None:
        return whole
    return _by_dimension(node, x, at)


def _by_interpolate(node: Node, x: Tensor, at: dict[int, Any]) -> Tensor | None:
    """The result of torch.nn.functional.interpolate if it reads the same positions, else None."""
    spatial = list(range(2, x.dim()))
    if not at or min(at) < 2 or x.dim() not in LINEAR or not x.dtype.is_floating_point:
        return None
    size = [at[d][0] if d in at else x.shape[d] for d in spatial]
    mode = node.get("mode", "nearest")

    def its(places: str, d: int, extent: int) -> Array:
        return _coordinates(places, x.shape[d], extent, extent / x.shape[d], (0, 1))

    def same(places: str) -> bool:
        return all(np.allclose(c, its(places, d, e)) for d, (e, _, c) in at.items())

    if mode == "nearest":
        rule = node.get("nearest_mode", "round_prefer_floor")
        for name, half in (("nearest", "asymmetric"), ("nearest-exact", "half_pixel")):
            shift = 0.5 if half == "half_pixel" else 0.0
            if all(
                np.array_equal(
                    np.clip(_nearest(rule, c), 0, x.shape[d] - 1),
                    np.clip(_nearest("floor", its(half, d, e) + shift), 0, x.shape[d] - 1),
                )
                for d, (e, _, c) in at.items()
            ):
                return functional.interpolate(x, size, mode=name)
        return None
    if (
        node.get("antialias", 0)
        or node.get("exclude_outside", 0)
        or (mode == "cubic" and (x.dim() != 4 or node.get("cubic_coeff_a", -0.75) != -0.75))
    ):
        return None
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        return None
    name = LINEAR[x.dim()] if mode == "linear" else "bicubic"
    for places, corners in (("half_pixel", False), ("align_corners", True)):
        if same(places):
            return functional.interpolate(x, size, mode=name, align_corners=corners)
    return None


def _by_dimension(node: Node, x: Tensor, at: dict[int, Any]) -> Tensor:
    """Resizes each dimension by itself, with indices or with a matrix of weights."""
    outside = node.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    beyond = np.zeros([1] * x.dim(), bool)
    for d, (_, scale, places) in at.items():
        n = x.shape[d]
        if node.get("mode", "nearest") == "nearest":
            indices = np.clip(_nearest(node.get("nearest_mode", "round_prefer_floor"), places), 0, n - 1)
            x = x.index_select(d, torch.from_numpy(indices))
        else:
            weights = torch.from_numpy(_matrix(node, n, places, scale)).to(x.dtype)
            x = torch.matmul(x.transpose(d, -1), weights.t()).transpose(d, -1)
        if outside:
            out = (places < 0) | (places > n - 1)
            beyond = beyond | out.reshape([-1 if i == d else 1 for i in range(x.dim())])
    if beyond.any():
        return torch.where(
            torch.from_numpy(beyond), torch.tensor(node.get("extrapolation_value", 0.0), dtype=x.dtype), x
        )
    return x


def _upsample(node: Node, x: Tensor, scales: Value = None) -> Tensor:
    """Upsample, which Resize replaced in opset 10."""
    same = node.having(coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    return _resize(same, x, None, scales)


def _resize_of_10(node: Node, x: Tensor, *inputs: Value) -> Tensor:
    return _resize(node, x, *inputs) if node.version >= 11 else _upsample(node, x, *inputs)


def _grid_sample(node: Node, x: Tensor, grid: Tensor) -> Tensor:
    """The modes were called bilinear and bicubic before opset 20."""
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(
        node.get("mode", "linear"), node.get("mode", "linear")
    )
    return functional.grid_sample(
        x, grid, mode, node.get("padding_mode", "zeros"), bool(node.get("align_corners", 0))
    )


OPERATORS = {
    "GridSample": Operator(_grid_sample),
    "Resize": Operator(_resize_of_10, known=(1, 2, 3)),
    "Upsample": Operator(_upsample, known=(1,)),
}
