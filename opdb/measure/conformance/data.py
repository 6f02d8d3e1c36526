"""Makes the input data of a case from the sha256 of its id, so it is the same everywhere and always.

Values stay where an op is defined and its result does not depend on rounding: denominators away from zero,
positive bases of powers, quotients of multiples of a quarter, comparisons of multiples of a half.  For HTP, which
computes floats in float16, they are values of float16.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from opdb.core.dtypes import BY_SHORT
from opdb.core.op_config import OpConfig, Quant, TensorConfig
from opdb.judge.samples import slot_of

Array = np.ndarray[Any, Any]
#: The spread of the real values, and the largest value that a quantized sample tensor can hold.
SPREAD, MOST = 1.25, 3.9
#: Elementwise functions whose results jump.
QUOTIENTS = ("FLOOR_DIV", "FMOD", "MOD")
COMPARISONS = ("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL")
#: Inputs that hold indices into another tensor: 0, which is valid for every tensor, if ``_places`` knows no others.
PLACES = ("batch_idx", "batch_splits", "indices", "position_ids", "seqlens_k", "total_sequence_length")
#: Ops for which ``_places`` knows what their indices refer to.
INDEXED = (
    "BatchPermutation",
    "Gather",
    "GatherElements",
    "GatherNd",
    "OneHot",
    "ScatterElements",
    "ScatterNd",
)
#: Ops whose results are positions of elements: no two elements are equal.
RANKING = ("Argmax", "Argmin", "TopK")
#: Ops whose input is an image of bytes, whatever the type is.
PICTURES = ("Nv12ToRgb", "Nv21ToRgb")
#: Op -> the input that has a batch for each value of batch_idx.
BATCHES = {"AxisAlignedBboxTransform": 3, "RoiAlign": 0, "RoiPooling": 0}
#: Functions of positive numbers, of numbers in [-1, 1], and functions that are undefined at zero.
ABOVE_ZERO, WITHIN_ONE, OFF_ZERO = ("LOG", "RSQRT", "SQRT"), ("ASIN",), ("RECIPROCAL",)
#: Op -> its elementwise function, unless a parameter chooses it.
FUNCTIONS = {
    f"ElementWise{name}": function
    for name, function in {
        "Abs": "ABS", "Add": "ADD", "And": "AND", "Asin": "ASIN", "Atan": "ATAN", "Ceil": "CEIL", "Cos": "COS",
        "Divide": "DIVIDE", "Equal": "EQUAL", "Exp": "EXP", "Floor": "FLOOR", "FloorDiv": "FLOOR_DIV",
        "Fmod": "FMOD", "Greater": "GREATER", "GreaterEqual": "GREATER_EQUAL", "Less": "LESS",
        "LessEqual": "LESS_EQUAL", "Log": "LOG", "Maximum": "MAXIMUM", "Minimum": "MINIMUM", "Mod": "MOD",
        "Multiply": "MULTIPLY", "Neg": "NEG", "Not": "NOT", "NotEqual": "NOT_EQUAL", "Or": "OR",
        "Power": "POWER", "Round": "ROUND", "Rsqrt": "RSQRT", "Sign": "SIGN", "Sin": "SIN",
        "Softplus": "SOFTPLUS", "SquareRoot": "SQRT", "SquaredDifference": "SQUARED_DIFFERENCE",
        "Subtract": "SUBTRACT", "Xor": "XOR",
    }.items()
} | {
    "Elu": "ELU", "Gelu": "GELU", "HardSwish": "HARD_SWISH", "IsInf": "ISINF", "IsNan": "ISNAN", "Prelu": "PRELU",
    "Relu": "RELU", "Relu1": "RELU1", "Relu6": "RELU6", "ReluMinMax": "RELU_MIN_MAX", "Sigmoid": "SIGMOID",
    "Tanh": "TANH",
}  # fmt: skip


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: The functions of ``operation`` in QnnOpDef.h, in the order of their numbers.
OPERATIONS = {
    "ElementWiseBinary": _words(
        "ADD AND DIVIDE EQUAL FLOOR_DIV FMOD GREATER GREATER_EQUAL LESS LESS_EQUAL MAXIMUM MINIMUM MOD MULTIPLY "
        "NOT_EQUAL OR POWER SQUARED_DIFFERENCE SUBTRACT XOR"
    ),
    "ElementWiseNeuron": _words("ELU GELU HARD_SIGMOID HARD_SWISH RELU RELU_MIN_MAX SIGMOID SOFTPLUS TANH"),
    "ElementWiseUnary": _words(
        "ABS ASIN ATAN CEIL COS EXP FLOOR LOG NEG NOT RECIPROCAL ROUND RSQRT SIGN SIN SQRT"
    ),
}


def function_of(config: OpConfig) -> str:
    """The elementwise function of an op config; "" for another op."""
    if config.op in OPERATIONS:
        number: int = next(p.value for p in config.params if p.name == "operation")
        return OPERATIONS[config.op][number]
    return FUNCTIONS.get(config.op, "")


def seed(case: str) -> int:
    """The seed of a case's data: the first 8 bytes of the sha256 of its id."""
    return int.from_bytes(hashlib.sha256(case.encode()).digest()[:8])


def inputs(case: str, config: OpConfig, half: bool = False) -> list[Array | None]:
    """One array for each input of ``config``, as its type stores it; None for an omitted input.

    ``half``: floats are rounded to float16.
    """
    rng = np.random.default_rng(seed(case))
    values: list[Array | None] = []
    for tensor in config.inputs:
        if tensor.type == "NULL":
            values.append(None)
            continue
        places = _places(config, tensor, rng)
        if places is not None:
            values.append(places.astype(BY_SHORT[tensor.dtype].numpy))
            continue
        if config.op in PICTURES:
            values.append(rng.integers(0, 256, tensor.shape).astype(BY_SHORT[tensor.dtype].numpy))
            continue
        if config.op in RANKING:
            values.append(_ranks(tensor, rng))
            continue
        real = np.clip(rng.normal(0.0, SPREAD, tensor.shape), -MOST, MOST)
        real = _domain(config, slot_of(tensor))(real)
        values.append(stored(real.astype(np.float16).astype(np.float64) if half else real, tensor))
    return values


def _ranks(tensor: TensorConfig, rng: np.random.Generator) -> Array:
    """Random numbers, no two of them equal as long as the type has enough values."""
    size = int(np.prod(tensor.shape))
    whole = rng.permutation(size).reshape(tensor.shape)
    kind = BY_SHORT[tensor.dtype]
    if kind.numpy is not None and not kind.quantized and np.dtype(kind.numpy).kind in "iu":
        return np.asarray(whole - (size // 2 if np.dtype(kind.numpy).kind == "i" else 0)).astype(kind.numpy)
    return stored((whole - size / 2) * (1.9 * MOST / max(size, 1)), tensor)


def _places(config: OpConfig, tensor: TensorConfig, rng: np.random.Generator) -> Array | None:
    """Indices into the first input, sorted batch indices, batch sizes, lengths of sequences.

    Each index occurs once if the last of several writers would be visible.
    """
    if (
        slot_of(tensor) == "batch_idx"
        and config.op in BATCHES
        and re.fullmatch(r"[iu](8|16|32|64)", tensor.dtype)
    ):
        return np.sort(rng.integers(0, config.inputs[BATCHES[config.op]].shape[0], tensor.shape))
    if slot_of(tensor) == "batch_splits" and config.op == "BoxWithNmsLimit":
        return np.diff(np.arange(tensor.shape[0] + 1) * config.inputs[0].shape[0] // max(tensor.shape[0], 1))
    if slot_of(tensor) in ("seqlens_k", "total_sequence_length"):
        return _lengths(config, tensor, rng)
    if slot_of(tensor) != "indices" or BY_SHORT[tensor.dtype].quantized or config.op not in INDEXED:
        return None
    params, table = {p.name: p.value for p in config.params}, config.inputs[0].shape
    if config.op == "OneHot":
        return rng.integers(0, max(params["depth"], 1), tensor.shape)
    if config.op in ("Gather", "GatherElements"):
        return rng.integers(0, max(table[params.get("axis", 0)], 1), tensor.shape)
    if config.op == "GatherNd":
        length, first = tensor.shape[-1], params.get("batch_dims", 0)
        sizes = table[first : first + length]
        return np.stack([rng.integers(0, max(n, 1), tensor.shape[:-1]) for n in sizes], -1)
    if config.op == "BatchPermutation":
        return rng.permutation(table[0])[: tensor.shape[0]]
    if config.op == "ScatterNd":
        sizes = table[: tensor.shape[-1]]
        tuples = int(np.prod(tensor.shape[:-1]))
        chosen = rng.permutation(int(np.prod(sizes)))
        return np.stack(np.unravel_index(np.resize(chosen, tuples), sizes), -1).reshape(tensor.shape)
    axis = params.get("axis", 0)
    every = np.broadcast_to(np.arange(table[axis]), (*_without(tensor.shape, axis), table[axis]))
    lines = rng.permuted(every, axis=-1)[..., np.arange(tensor.shape[axis]) % max(table[axis], 1)]
    return np.moveaxis(lines, -1, axis)


def _lengths(config: OpConfig, tensor: TensorConfig, rng: np.random.Generator) -> Array:
    """Sequence lengths: up to the size of the past, which includes this call's rows; without a past, this call's rows."""
    now = config.inputs[0].shape[1]
    past = [t.shape[2] for t in config.inputs if t.type != "NULL" and slot_of(t) == "past_key"]
    most = max([now, *past])
    if slot_of(tensor) == "total_sequence_length":
        return np.asarray(most)
    return rng.integers(now - 1, most, tensor.shape) if most > now else np.full(tensor.shape, now - 1)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _corners(values: Array) -> Array:
    """Sorts the corners of boxes."""
    first, second = values[..., :2], values[..., 2:4]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], -1)


def _regions(values: Array) -> Array:
    """Boxes; a number before the corners becomes batch 0."""
    return np.concatenate([0 * values[..., :-4], _corners(values[..., -4:])], -1)


#: (op, input slot) -> a function that turns numbers of up to MOST into meaningful ones.
DOMAINS: dict[tuple[str, str], Callable[[Array], Array]] = {
    ("AxisAlignedBboxTransform", "boxes"): _corners,
    ("AxisAlignedBboxTransform", "image_size"): np.abs,
    ("BoxWithNmsLimit", "boxes"): lambda v: _corners(v.reshape(-1, 4)).reshape(v.shape),
    ("BoxWithNmsLimit", "scores"): np.abs,
    ("CombinedNms", "boxes"): _corners,
    ("CombinedNms", "scores"): np.abs,
    ("CropAndResize", "boxes"): lambda v: np.abs(v) / MOST,
    ("DistributeFpnProposals", "rois"): lambda v: _regions(200 * np.abs(v)),
    ("ElementWiseMux", "condition"): lambda v: np.abs(np.round(v)) / 4 % 0.5,  # stored as 0 or 1
    ("Logit", "epsilon"): lambda v: np.full_like(v, 0.125),
    ("Logit", "x"): lambda v: np.abs(v) / MOST * 0.9 + 0.05,
    ("MultiClassNms", "boxes"): _corners,
    ("MultiClassNms", "scores"): np.abs,
    ("NonMaxSuppression", "boxes"): _corners,
    ("NonMaxSuppression", "scores"): np.abs,
    ("RoiAlign", "rois"): lambda v: _corners(np.abs(v)),
    ("RoiPooling", "rois"): lambda v: _corners(np.abs(v)),
}


def _domain(config: OpConfig, slot: str) -> Callable[[Array], Array]:
    if slot in PLACES:
        return np.zeros_like
    if own := DOMAINS.get((config.op, slot)):
        return own
    function, second = function_of(config), config.inputs[-1].name in ("", slot) and len(config.inputs) > 1
    if function in ABOVE_ZERO:
        return lambda v: np.abs(v) + 0.1
    if function in WITHIN_ONE:
        return lambda v: v / MOST
    if function in OFF_ZERO or (function == "DIVIDE" and second):
        return _off_zero
    if function in COMPARISONS:
        return lambda v: np.round(v * 2) / 2
    if function in QUOTIENTS:
        return lambda v: _off_zero(np.round(v * 4) / 4) if second else np.round(v * 4) / 4
    if function == "POWER":
        return lambda v: np.clip(v, -2, 2) if second else np.abs(v) / 2 + 0.1
    return lambda v: v


def _off_zero(values: Array) -> Array:
    return np.where(np.abs(values) < 0.5, np.where(values < 0, -0.5, 0.5), values)


def stored(real: Array, tensor: TensorConfig) -> Array:
    """Real values as the tensor's type stores them; integers are the values times four."""
    kind = BY_SHORT[tensor.dtype]
    if kind.numpy is None:
        raise ValueError(f"{kind.qnn} has no whole-byte elements")
    if kind.quantized:
        return quantized(real, tensor)
    if tensor.dtype == "bool8":
        return np.asarray(real > 0)
    if tensor.dtype == "bf16":
        return np.asarray(real.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if np.dtype(kind.numpy).kind in "iu":
        whole = np.round(real * 4)
        return (np.abs(whole) if np.dtype(kind.numpy).kind == "u" else whole).astype(kind.numpy)
    return np.asarray(real.astype(kind.numpy))


def quantized(real: Array, tensor: TensorConfig) -> Array:
    """Real values as quantized integers of the tensor's encoding, saturated."""
    scale, offset = _affine(tensor)
    kind = BY_SHORT[tensor.dtype]
    low, high = limits(tensor)
    return np.asarray(np.clip(np.round(real / scale) - offset, low, high).astype(kind.numpy))


def limits(tensor: TensorConfig) -> tuple[int, int]:
    """The smallest and the largest stored value of a quantized tensor; an encoding may use fewer bits."""
    kind = BY_SHORT[tensor.dtype]
    bits = tensor.quant.bits if tensor.quant is not None and tensor.quant.bits else kind.bits
    if kind.qnn.startswith("U"):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def real(values: Array, tensor: TensorConfig) -> Array:
    """The real values of stored ones: float64, or int64 and bool for types of whole numbers and truth values."""
    if BY_SHORT[tensor.dtype].quantized:
        scale, offset = _affine(tensor)
        return np.asarray((values.astype(np.float64) + offset) * scale)
    if tensor.dtype == "bf16":
        return np.asarray((values.astype(np.uint32) << 16).view(np.float32).astype(np.float64))
    if values.dtype.kind == "b" or tensor.dtype == "bool8":
        return np.asarray(values != 0)
    return np.asarray(values.astype(np.int64 if values.dtype.kind in "iu" else np.float64))


def written(real: Array, tensor: TensorConfig) -> Array:
    """Real values, whole numbers or truth values as the tensor's type stores them: the inverse of ``real``."""
    kind = BY_SHORT[tensor.dtype]
    if kind.quantized:
        return quantized(real, tensor)
    if tensor.dtype == "bf16":
        bits = real.astype(np.float32).view(np.uint32)
        return np.asarray((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.asarray(real.astype(kind.numpy))


def step(tensor: TensorConfig) -> Array:
    """The real value of one quantization step, in a shape that broadcasts with the tensor's."""
    return _affine(tensor)[0]


def _affine(tensor: TensorConfig) -> tuple[Array, Array]:
    """Scale and offset, in shapes that broadcast with the tensor's."""
    quant = tensor.quant or Quant("SCALE_OFFSET", (1.0,), (0,))
    scale, offset = np.asarray(quant.scale), np.asarray(quant.offset or (0,) * len(quant.scale))
    if "AXIS" not in quant.encoding:
        return scale[:1].reshape(()), offset[:1].reshape(())
    shape = [1] * tensor.rank
    shape[quant.axis or 0] = -1
    return scale.reshape(shape), offset.reshape(shape)
