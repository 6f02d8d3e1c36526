"""ONNX's counterparts of ops on images, boxes and sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opdb.core.op_config import OpConfig
from opdb.measure.conformance.executors.base import Array, NoOracle, Params
from opdb.measure.conformance.executors.meaning import optional
from opdb.measure.conformance.executors.onnx_nodes import channels_first, channels_last, node, nodes

Inputs = Sequence[Any]  # arrays; None for an omitted input


# -- images


def _resized(config: OpConfig, x: Array, **attributes: Any) -> list[Array]:
    y = config.outputs[0].shape
    sizes = np.array([y[0], y[-1], *y[1:-1]])
    return [channels_last(node("Resize", channels_first(x), None, None, sizes, **attributes))]


def _place(params: Params) -> str:
    if params.get("align_corners", False):
        return "align_corners"
    return "half_pixel" if params.get("half_pixel_centers", False) else "asymmetric"


def resize(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    places = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    rounding = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    attributes = {
        "mode": ("nearest", "linear", "cubic")[params.get("interpolation_mode", 0)],
        "coordinate_transformation_mode": places[params.get("transformation_mode", 0)],
        "nearest_mode": rounding[params.get("nearest_mode", 0)],
        "cubic_coeff_a": params.get("cubic_coeff", -0.75),
        "exclude_outside": int(params.get("exclude_outside", False)),
    }
    return _resized(config, inputs[0], **attributes)


def resize_bilinear(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Gives places outside the image no weight with antialias, as in PyTorch; without it, the edge is repeated."""
    smooth = int(params.get("antialias", False))
    more = {"antialias": smooth, "exclude_outside": smooth}
    return _resized(config, inputs[0], mode="linear", coordinate_transformation_mode=_place(params), **more)


def resize_nearest(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Picks the pixel under the center, or under the origin; aligned corners round up at ties."""
    place = _place(params)
    rounding = "floor" if place == "asymmetric" else "round_prefer_ceil"
    return _resized(
        config, inputs[0], mode="nearest", coordinate_transformation_mode=place, nearest_mode=rounding
    )


def crop_and_resize(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Resize with each box as its region, one at a time."""
    image, boxes, batch = inputs
    _, height, width, channels = config.outputs[0].shape
    if params.get("interpolation_mode", 0) == 1:
        raise NoOracle("neither document says which of two pixels at the same distance is the nearest")
    made = [
        node(
            "Resize", channels_first(image[n][None]), np.array([0, 0, y1, x1, 1, 1, y2, x2]), None,
            np.array([1, channels, height, width]), mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
            extrapolation_value=params.get("extrapolation_value", 0.0),
        )
        for (y1, x1, y2, x2), n in zip(boxes, batch, strict=True)
    ]  # fmt: skip
    return [channels_last(np.concatenate(made))]


def grid_sample(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    y = node(
        "GridSample",
        channels_first(inputs[0]),
        inputs[1],
        mode=("linear", "nearest")[params.get("mode", 0)],
        padding_mode=("zeros", "border", "reflection")[params.get("padding_mode", 0)],
        align_corners=int(params.get("align_corners", False)),
    )
    return [channels_last(y)]


# -- boxes


def roi_align(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """Scales the regions first, because ONNX has one scale for both axes."""
    image, rois, batch = inputs
    _, height, width, _ = config.outputs[0].shape
    down, along = params["img_size_ratio"]
    samples = {params.get(f"num_samples_{axis}", -1) for axis in "yx"}
    if len(samples) > 1:
        raise NoOracle("ONNX's RoiAlign has one number of samples for both axes")
    rois = node("Div", rois, np.array([along, down, along, down]))
    y = node(
        "RoiAlign", channels_first(image), rois, batch, output_height=height, output_width=width,
        sampling_ratio=max(samples.pop(), 0),
        coordinate_transformation_mode="half_pixel" if params.get("aligned", False) else "output_half_pixel",
    )  # fmt: skip
    return [channels_last(y)]


def non_max_suppression(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """QNN keeps scores equal to the threshold, and gives every batch the same number of rows.

    Rows after a batch's last box are copies of that, or (batch, 0, 0) if there is none.
    """
    boxes, scores = inputs
    iou, score = (np.array([params.get(n, 0.0)], np.float32) for n in ("iou_threshold", "score_threshold"))
    most, below = np.array([params.get("max_boxes_selected", 0)]), np.nextafter(score, np.float32(-np.inf))
    found = node("NonMaxSuppression", boxes, scores, most, iou, below).reshape(-1, 3)
    rows, made = config.outputs[0].shape[0] // max(len(boxes), 1), [np.zeros((0, 3), np.int64)]
    for batch in range(len(boxes)):
        own = found[found[:, 0] == batch]
        last = np.concatenate([[[batch, 0, 0]], own])[-1:]
        made += [own, np.repeat(last, rows - len(own), 0)]
    valid = np.bincount(found[:, 0], minlength=len(boxes))
    return [np.concatenate(made), valid][: len(config.outputs)]


# -- sequences


def rotary_embedding(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    x, cos, sin = inputs[:3]
    size = params.get("rotary_embedding_dim", x.shape[-1])
    how = {"interleaved": int(params.get("interleaved", False)), "rotary_embedding_dim": size}
    return [node("RotaryEmbedding", x, cos, sin, optional(inputs, 3), **how)]


def stft(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    step, length = (np.asarray(params[n]) if n in params else None for n in ("frame_step", "frame_length"))
    onesided = int(params.get("onesided", True))
    return [node("STFT", inputs[0], step, optional(inputs, 1), length, onesided=onesided)]


def _over_time(config: OpConfig, given: dict[str, Array], params: Params) -> tuple[Array, str]:
    """The input as [time, batch, numbers], and ONNX's direction."""
    x = given["x"] if given["x"].ndim == 3 else given["x"][None]
    timed = given["x"].ndim == 3 and not params.get("time_major", True)
    if np.any(given.get("reset", 0)):
        raise NoOracle("ONNX's cells have no input that resets them")
    return (np.swapaxes(x, 0, 1) if timed else x), ("forward", "reverse")[params.get("direction", 0)]


def _result(config: OpConfig, params: Params, sequence: Array, last: Sequence[Array]) -> list[Array]:
    """Removes the axis for the direction that ONNX's outputs have."""
    whole = sequence[:, 0]
    if not params.get("time_major", True) and len(config.outputs[0].shape) == 3:
        whole = np.swapaxes(whole, 0, 1)
    return [y.reshape(t.shape) for y, t in zip((whole, *last), config.outputs, strict=False)]


def _stacked(given: dict[str, Array], names: Sequence[str]) -> Array:
    """Stacks parts vertically, for one direction."""
    return np.concatenate([given[n] for n in names])[None]


def gru(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    given = {t.name: v for t, v in zip(config.inputs, inputs, strict=True) if v is not None}
    x, direction = _over_time(config, given, params)
    units = given["w_xz"].shape[0]
    biases = [f"b_{side}{gate}" for side in "xh" for gate in "zrn"]
    given = dict.fromkeys(biases, np.zeros(units)) | given
    before = int(params.get("linear_before_reset", 0))
    sequence, h = nodes(
        "GRU", 2, x, _stacked(given, ["w_xz", "w_xr", "w_xn"]), _stacked(given, ["w_hz", "w_hr", "w_hn"]),
        _stacked(given, biases), None, given.get("initial_h"), hidden_size=units, direction=direction,
        linear_before_reset=before,
    )  # fmt: skip
    return _result(config, params, sequence, [h])


def lstm(config: OpConfig, inputs: Inputs, params: Params) -> list[Array]:
    """The input gate of a cell without one is 1 minus the forget gate: sigmoid(-x) is 1 - sigmoid(x)."""
    given = {t.name: v for t, v in zip(config.inputs, inputs, strict=True) if v is not None}
    x, direction = _over_time(config, given, params)
    if any(n.startswith("ln_") or n == "w_proj" for n in given):
        raise NoOracle("ONNX's LSTM has neither layer norms nor a projection")
    if params.get("cell_clip_threshold", 0.0) > 0:
        raise NoOracle("ONNX's LSTM clips what goes into a gate, not the cell")
    units, batch = given["w_xf"].shape[0], x.shape[1]
    if "w_xi" not in given:
        given |= {n: -given[f] for n, f in (("w_xi", "w_xf"), ("w_hi", "w_hf"), ("b_i", "b_f"))}
        given |= {"w_ci": -given["w_cf"]} if "w_cf" in given else {}
    zero = {f"w_c{g}": np.zeros(units) for g in "iof"}
    given = zero | {n: np.zeros((batch, units)) for n in ("initial_h", "initial_c")} | given
    weights = [_stacked(given, [f"w_{side}{g}" for g in "iofc"]) for side in "xh"]
    biases = np.concatenate([*(given[f"b_{g}"] for g in "iofc"), np.zeros(4 * units)])[None]
    peepholes = _stacked(given, ["w_ci", "w_co", "w_cf"])

    def run(steps: Array) -> list[Array]:
        states = [given[n][None] for n in ("initial_h", "initial_c")]
        how = {"hidden_size": units, "direction": direction}
        return nodes("LSTM", 3, steps, *weights, biases, None, *states, peepholes, **how)

    sequence, h, c = run(x)
    last, before = (x[-1], x[:-1]) if direction == "forward" else (x[0], x[1:])
    states = [s[0] for s in run(before)[1:]] if len(before) else [given["initial_h"], given["initial_c"]]
    gates = _gates(given, last, states[0], {"i": states[1], "f": states[1], "c": 0 * c[0], "o": c[0]})
    return _result(config, params, sequence, [c, h, *gates, h])


def _gates(given: dict[str, Array], x: Array, h: Array, seen: dict[str, Array]) -> list[Array]:
    """The arguments of the gates' functions, which ONNX does not return; ``seen``: the cell state that each gate reads."""
    made = []
    for gate, cell in seen.items():
        from_x = node("Gemm", x, given[f"w_x{gate}"], given[f"b_{gate}"], transB=1)
        from_h = node("Gemm", h, given[f"w_h{gate}"], transB=1)
        from_cell = node("Mul", cell, given.get(f"w_c{gate}", np.zeros(1)) if gate != "c" else np.zeros(1))
        made.append(node("Sum", from_x, from_h, from_cell))
    return made
