"""Small modules for the tests of ahead-of-time compilation, and the flow that lowers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.nn import functional

from opdb.plugins.executorch.delegate.specs import Options

X = torch.arange(16.0).reshape(2, 8).sin()
#: Leaves torch.sort to others, so that a module has two groups.
NO_SORT = Options(leave=("aten.sort.default",))
NO_LINEAR = Options(leave=("aten.sort.default", "aten.linear.default", "aten.addmm.default"))


class Net(torch.nn.Module):
    """An image network: [1, 3, 8, 8] -> [1, 4]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.out = (
            torch.nn.Conv2d(3, 6, 3),
            torch.nn.BatchNorm2d(6),
            torch.nn.Linear(6, 4),
        )
        torch.nn.init.uniform_(self.norm.running_mean)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(functional.hardswish(self.norm(self.conv(x))).mean((2, 3)))


class Sorted(torch.nn.Module):
    """One weight before and after a sort: [2, 8] -> [2, 8]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sort(self.one(x), -1)[0]
        return self.two(functional.gelu(y)) + self.one(y)


class Cached(torch.nn.Module):
    """Attention over a cache in buffers: [1, 8], int64 [1] -> [1, 8]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 1, 5, 8))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.keys.index_copy_(2, at, self.key(x)[None, None])
        return functional.scaled_dot_product_attention(self.query(x)[None, None], self.keys, self.keys)[0, 0]


class Constants(torch.nn.Module):
    """A table computed from constants, before and after a sort: [2, 8] -> [2, 8]."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = torch.arange(8).float() * 2
        return torch.sort(x @ self.weight.t() + table, -1)[0] @ self.weight.t() + table


def export(module: torch.nn.Module, inputs: Sequence[torch.Tensor], **more: Any) -> Any:
    return torch.export.export(module.eval(), tuple(inputs), **more)


def lower(
    module: torch.nn.Module, inputs: Sequence[torch.Tensor], *partitioners: Any, **more: Any
) -> EdgeProgramManager:
    return to_edge_transform_and_lower(export(module, inputs, **more), partitioner=list(partitioners))


def calls(manager: EdgeProgramManager, method: str = "forward") -> list[str]:
    """The calls of a method in order: the backend of a delegate, the operator of any other node."""
    program = manager.exported_program(method)
    found = []
    for node in program.graph.nodes:
        if node.target is executorch_call_delegate:
            found.append(getattr(program.graph_module, node.args[0].target).backend_id)
        elif node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem":
            found.append(node.target.__name__)
    return found


def lowered(manager: EdgeProgramManager, method: str = "forward") -> list[LoweredBackendModule]:
    """The lowered modules of a method, in order."""
    program = manager.exported_program(method)
    nodes = [n for n in program.graph.nodes if n.target is executorch_call_delegate]
    return [getattr(program.graph_module, n.args[0].target) for n in nodes]
