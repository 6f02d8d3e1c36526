"""A network of convolutions and attention, lowered to a QNN graph, and PyTorch's values at each of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from opdb.catalog.targets.target import Target
from opdb.checks.graph import build_graph
from opdb.checks.verdicts import check_nodes
from opdb.core.graph import QnnGraph
from opdb.programs.torch.export import export
from opdb.programs.torch.program import Program

Array = np.ndarray[Any, Any]
MOVES = ("Reshape", "Transpose")


def silu(x: Tensor) -> Tensor:
    """Used for QNN CPU, which lacks quantized GELU (specs/ops/ElementWiseNeuron.yaml, P1)."""
    return x * torch.sigmoid(x)


class Network(nn.Module):
    """Images (N, 3, 16, 16) -> (N, 10): three convolutions, one block of attention and MLP, two means, a head."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.activation = activation
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, stride=2, padding=1)
        self.side = nn.Conv2d(16, 16, 3, padding=1)
        self.norm1, self.norm2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.back = nn.Linear(16, 64), nn.Linear(64, 16)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[0]
        x = self.down(torch.relu(self.first(x)))
        x = x + torch.tanh(self.side(x))
        t = x.reshape(n, 16, 64).transpose(1, 2)
        q, k, v = (
            part.reshape(n, 64, 2, 8).transpose(1, 2) for part in self.qkv(self.norm1(t)).split(16, -1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * 8**-0.5, -1)
        t = t + self.out((weights @ v).transpose(1, 2).reshape(n, 64, 16))
        t = t + self.back(self.activation(self.up(self.norm2(t))))
        return self.head(torch.cat([t.mean(1), torch.sigmoid(t).mean(1)], -1))


@dataclass
class Subject:
    """One network, its calibration data, one input, and PyTorch's result for it."""

    module: nn.Module
    calibration: list[Array]
    x: Array
    y: Array
    _programs: dict[Target, tuple[Program, QnnGraph]] = field(default_factory=dict)

    def lowered(self, target: Target) -> tuple[Program, QnnGraph]:
        """The float graph for a target; its input is named x."""
        if target not in self._programs:
            program = Program(export(self.module, (torch.from_numpy(self.x),)))
            coverage = check_nodes(program, target)
            assert coverage.complete, [r for r in coverage.rows if r.verdict != "supported"]
            self._programs[target] = (program, build_graph(program, coverage.lowered, "network"))
        return self._programs[target]


@cache
def subject(activation: Callable[[Tensor], Tensor]) -> Subject:
    """Deterministic: 32 calibration inputs, and another input, of uniform numbers from -1 to 1."""
    torch.manual_seed(0)
    module = Network(activation).eval()
    rng = np.random.default_rng(1)
    images = rng.uniform(-1, 1, (33, 2, 3, 16, 16)).astype(np.float32)
    with torch.no_grad():
        y = module(torch.from_numpy(images[0])).numpy()
    return Subject(module, list(images[1:]), images[0], y)


class _Recorder(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[str, Array] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        for i, part in enumerate(result if isinstance(result, (list, tuple)) else [result]):
            if isinstance(part, Tensor) and n.op == "call_function":
                self.values[n.name if i == 0 else f"{n.name}_{i}"] = part.detach().numpy()
        return result


def pytorch_values(program: Program, graph: QnnGraph, x: Array) -> Mapping[str, Array]:
    """PyTorch's value of every non-static tensor of ``graph``, by its name.

    Tensors of the graph are named after torch nodes; those made by Reshape and Transpose follow from them.
    """
    recorder = _Recorder(program.exported.module())
    recorder.run(torch.from_numpy(x))
    values = {"x": x} | {n: v for n, v in recorder.values.items() if n in graph.tensors}
    values = {n: v for n, v in values.items() if v.shape == graph.tensors[n].shape}
    moves = [op for op in graph.ops if op.op in MOVES]
    for op in [*moves, *reversed(moves), *moves]:
        source, made = op.inputs[0] or "", op.outputs[0]
        perm = next((p.value for p in op.params if p.name == "perm"), None)
        if source in values and made not in values:
            values[made] = _moved(values[source], perm, graph.tensors[made].shape)
        elif made in values and source not in values:
            back = None if perm is None else tuple(np.argsort(perm))
            values[source] = _moved(values[made], back, graph.tensors[source].shape)
    return values


def _moved(values: Array, perm: tuple[int, ...] | None, shape: tuple[int, ...]) -> Array:
    return values.reshape(shape) if perm is None else values.transpose(perm)


def sqnr(got: Array, want: Array) -> float:
    """The signal-to-noise ratio in dB: 10 log10 of the sum of squares of ``want`` over that of the differences."""
    noise = float(((got.astype(np.float64) - want) ** 2).sum())
    return (
        float(10 * np.log10(float((want.astype(np.float64) ** 2).sum()) / noise)) if noise else float("inf")
    )
