"""Interpreter ops for casts, limits and remainders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from opdb.core.graph import QnnGraph

Params = dict[str, Any]
STORED = {"f32": torch.float32, "f16": torch.float16, "i32": torch.int32, "bool8": torch.bool}


def cast(x: list[Any], p: Params, graph: QnnGraph, outputs: tuple[str, ...]) -> Tensor:
    made: Tensor = x[0].to(STORED[graph.tensors[outputs[0]].dtype])
    return made


def instance_norm(x: list[Any], p: Params, *_: Any) -> Tensor:
    image = x[0].movedim(-1, 1)
    made = torch.nn.functional.instance_norm(image, None, None, x[1], x[2], True, 0.1, p["epsilon"])
    return made.movedim(1, -1)


SIMPLE: Mapping[str, Callable[..., Any]] = {
    "Cast": cast,
    "Elu": lambda x, p, *_: torch.where(x[0] > 0, x[0], p.get("alpha", 1.0) * torch.expm1(x[0])),
    "ElementWiseFloorDiv": lambda x, p, *_: torch.floor(x[0] / x[1]),
    "ElementWiseFmod": lambda x, p, *_: torch.fmod(x[0], x[1]),
    "ElementWiseMod": lambda x, p, *_: torch.remainder(x[0], x[1]),
    "InstanceNorm": instance_norm,
    "ReluMinMax": lambda x, p, *_: torch.clamp(x[0], p["min_value"], p["max_value"]),
    "Sigmoid": lambda x, p, *_: torch.sigmoid(x[0]),
    "Tanh": lambda x, p, *_: torch.tanh(x[0]),
}
