"""Small networks in QNN's own layout, for simulation."""

from __future__ import annotations

import numpy as np

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig

SOC = "SA8255"


def static(name: str, *shape: int) -> GraphTensor:
    data = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    return GraphTensor(name, "f32", shape, "STATIC", data)


def convolution(name: str, source: str, weight: str, out: str) -> GraphOp:
    """A 3 x 3 convolution that keeps the size; its origin is the torch node <name>."""
    params = (
        ParamConfig("stride", "u32", (1, 1), (2,)),
        ParamConfig("pad_amount", "u32", (1, 1, 1, 1), (2, 2)),
    )
    return GraphOp(name, "Conv2d", (source, weight), params, (out,), origin=name)


def conv_relu(*, between: bool = True, size: int = 32) -> QnnGraph:
    """Two convolutions of 32 channels, the last followed by a Relu; ``between``: the first, too."""
    shape = (1, size, size, 32)
    tensors = [GraphTensor("x", "f32", shape, "APP_WRITE"), GraphTensor("y", "f32", shape, "APP_READ")]
    tensors += [static("w0", 3, 3, 32, 32), static("w1", 3, 3, 32, 32)]
    tensors += [GraphTensor(n, "f32", shape) for n in ("a", "b", "c")]
    ops = [
        convolution("first", "x", "w0", "a"),
        GraphOp("relu", "Relu", ("a",), (), ("b",), origin="relu"),
        convolution("second", "b" if between else "a", "w1", "c"),
        GraphOp("last", "Relu", ("c",), (), ("y",), origin="last"),
    ]
    if not between:
        del ops[1], tensors[5]
    return QnnGraph("net", {t.name: t for t in tensors}, ops)


def uncosted() -> QnnGraph:
    """A RmsNorm, for which the library has no cost in float16, after a product."""
    shape = (1, 64, 128)
    tensors = [GraphTensor("x", "f32", shape, "APP_WRITE"), GraphTensor("y", "f32", shape, "APP_READ")]
    tensors += [static("w", 128, 128), static("gamma", 128), GraphTensor("a", "f32", shape)]
    tensors += [GraphTensor("beta", "f32", (128,), "STATIC", np.zeros(128, np.float32))]
    axes = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (2,), (1,)))
    ops = [
        GraphOp("product", "MatMul", ("x", "w"), (), ("a",), origin="product"),
        GraphOp("norm", "RmsNorm", ("a", "gamma", "beta"), axes, ("y",), origin="norm"),
    ]
    return QnnGraph("net", {t.name: t for t in tensors}, ops)
