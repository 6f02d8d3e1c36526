"""PyTorch modules of ONNX graphs: one for the graph, a child for each node that computes when the model runs, and their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from opdb.programs.onnx.node import Array, Node, Operator, Unreadable, Value, tensor


class Operation(torch.nn.Module):  # type: ignore[misc]  # PyTorch has no types here
    """One node: holds the values known from the file, takes the others as arguments."""

    def __init__(self, node: Node, operator: Operator, inputs: Sequence[Value], weights: Weights) -> None:
        super().__init__()
        self.node, self.function = node, operator.function
        self.held: list[Any] = []
        for place, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                self.held.append(_given)
            elif value is None or place in operator.known:
                self.held.append(value)
            elif not isinstance(value, np.ndarray):
                raise Unreadable(f"its input {place} is no tensor")
            else:
                self.held.append(f"input{place}")
                weights.hold(self, f"input{place}", value)

    def forward(self, *given: torch.Tensor) -> Any:
        rest = iter(given)
        inputs = [
            next(rest) if h is _given else getattr(self, h) if isinstance(h, str) else h for h in self.held
        ]
        return self.function(self.node, *inputs)


_given = object()


@dataclass
class Weights:
    """Tensors of the file, each made once: a weight that two nodes read is one parameter."""

    made: dict[int, torch.Tensor] = field(default_factory=dict)
    arrays: list[Array] = field(default_factory=list)  # keeps the arrays alive: ``made`` has their ids

    def hold(self, module: torch.nn.Module, name: str, array: Array) -> None:
        if id(array) not in self.made:
            self.arrays.append(array)
            held = tensor(array)
            floating = held.dtype.is_floating_point
            self.made[id(array)] = torch.nn.Parameter(held, requires_grad=False) if floating else held
        held = self.made[id(array)]
        if isinstance(held, torch.nn.Parameter):
            module.register_parameter(name, held)
        else:
            module.register_buffer(name, held)


@dataclass(frozen=True)
class Step:
    name: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]


class Graph(torch.nn.Module):  # type: ignore[misc]
    """Nodes in the order of the file.

    ``forward`` takes the tensors of ``inputs``, and returns one tensor or a tuple; an output without a name is None.
    ``watch``, if given, is called with the name and the value of each tensor of the file.
    """

    watch: Callable[[str, Any], None] | None = None

    def __init__(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.steps: list[Step] = []
        self.known: dict[str, str] = {}  # output -> the buffer with its known value

    def forward(self, *given: torch.Tensor) -> Any:
        values = dict(zip(self.inputs, given, strict=True))
        for step in self.steps:
            made = getattr(self, step.name)(*(values[r] for r in step.reads))
            values.update(zip(step.makes, made if isinstance(made, (tuple, list)) else (made,), strict=False))
        if self.watch is not None:
            for name, value in values.items():
                self.watch(name, value)
        results = [getattr(self, self.known[o]) if o in self.known else values.get(o) for o in self.outputs]
        return results[0] if len(results) == 1 else tuple(results)
