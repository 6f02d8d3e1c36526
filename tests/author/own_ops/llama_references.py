"""Numpy references for the ops of examples/llama: each takes stored inputs and parameters and returns its stored outputs,
as float64 if they are real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from opdb.core.op_config import OpConfig
from opdb.measure.conformance import data

Array = np.ndarray[Any, Any]


def _held(v: Array, dtype: str) -> Array:
    most = 2 ** (int(dtype[2:]) - 1) - 1
    return np.clip(np.rint(v), -most - 1, most)


def _silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _norm(x: Array, weights: Array, bias: Array | float, epsilon: float, centered: bool) -> Array:
    x = x - x.mean(-1, keepdims=True) if centered else x
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weights + bias


def _rope(x: Array, sines: Array, cosines: Array) -> Array:
    half = x.shape[-1] // 2
    turns = (cosines + 1j * sines)[:, None, :half]
    turned = (x[..., :half] + 1j * x[..., half:]) * turns
    return np.concatenate([turned.real, turned.imag], -1)


def _mask(x: Array) -> Array:
    queries, keys = x.shape[-2:]
    return np.where(np.tri(queries, keys, keys - queries, dtype=bool), x, -65504.0)


def _linear(x: Array, w: Array, b: Array, p: dict[str, float]) -> Array:
    products = x @ w[0, 0] * (p["in_scale"] * p["weight_scale"])
    return (products + b * p["bias_scale"]) / p["output_scale"]


#: Op -> its output from stored integers or real numbers, and the parameters.
REAL: dict[str, Callable[..., Array]] = {
    "SiLU": lambda x: _silu(x),
    "LLaMAReLU": lambda x: np.maximum(x, 0),
    "LLaMAMul": lambda a, b: a * b,
    "LLaMAAdd": lambda a, b: a + b,
    "QLayerNorm": lambda x, w, b: _norm(x, w, b, 1e-5, True),
    "RMSNorm": lambda x, w: _norm(x, w, 0.0, 1e-6, False),
    "RoPESimple": _rope,
    "CausalMask": _mask,
}
STORED: dict[str, Callable[..., Array]] = {
    "LLaMADequantize": lambda x, p: x * p["scale"],
    "LLaMADequantizeAdd": lambda x, b, p: x * p["scale"] + b,
    "LLaMAQuantize": lambda x, p: x / p["scale"],
    "LLaMASuperSiLU": lambda a, b, p: _silu(a * p["a_scale"]) * (b * p["b_scale"]) / p["o_scale"],
    "LLaMALinear": lambda x, w, b, p: _linear(x, w, b, p),
}


def reference(config: OpConfig, inputs: Sequence[Array | None]) -> list[Array]:
    """The real value of the output; ops in STORED write integers themselves, whatever their encodings."""
    (made,) = config.outputs
    if config.op in REAL:
        return [
            REAL[config.op](*(data.real(a, t) for a, t in zip(inputs, config.inputs, strict=True)))  # type: ignore[arg-type]
        ]
    params = {p.name: p.value for p in config.params}
    found = STORED[config.op](*(a.astype(np.float64) for a in inputs if a is not None), params)
    if made.dtype.startswith("sq"):
        return [data.real(_held(found, made.dtype), made)]
    return [found]
