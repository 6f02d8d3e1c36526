"""The vendor's libraries, if installed, and graphs to try on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from opdb.core.graph import GraphOp, GraphTensor, QnnGraph
from opdb.core.op_config import ParamConfig


@pytest.fixture
def relu_graph() -> QnnGraph:
    x, y = GraphTensor("x", "f32", (7, 33), "APP_WRITE"), GraphTensor("y", "f32", (7, 33), "APP_READ")
    return QnnGraph("relu", {"x": x, "y": y}, [GraphOp("relu0", "Relu", ("x",), (), ("y",))])


@pytest.fixture
def guide_graph() -> QnnGraph:
    """LayerNorm([768], eps=1e-6), then Linear(768, 100), on (200, 768)."""
    rng = np.random.default_rng(2)

    def static(name: str, *shape: int, scale: float = 1.0) -> GraphTensor:
        return GraphTensor(name, "f32", shape, "STATIC", (rng.normal(size=shape) * scale).astype(np.float32))

    tensors: list[GraphTensor] = [
        GraphTensor("x", "f32", (200, 768), "APP_WRITE"),
        static("gamma", 768),
        static("beta", 768),
        GraphTensor("normed", "f32", (200, 768)),
        static("weight", 100, 768, scale=768**-0.5),
        static("bias", 100),
        GraphTensor("y", "f32", (200, 100), "APP_READ"),
    ]
    params: tuple[Any, ...] = (ParamConfig("epsilon", "f32", 1e-6), ParamConfig("axes", "u32", (1,), (1,)))
    return QnnGraph(
        "guide",
        {t.name: t for t in tensors},
        [
            GraphOp("norm", "LayerNorm", ("x", "gamma", "beta"), params, ("normed",)),
            GraphOp("linear", "FullyConnected", ("normed", "weight", "bias"), (), ("y",)),
        ],
    )
