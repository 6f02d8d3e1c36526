"""Measures how large the values of a program become on samples of real inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram


class _Watching(torch.fx.Interpreter):  # type: ignore[misc]
    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.largest: dict[str, float] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        made = super().run_node(n)
        if isinstance(made, torch.Tensor) and made.is_floating_point() and made.numel():
            finite = made[torch.isfinite(made)].abs()
            most = float(finite.max()) if finite.numel() else 0.0
            self.largest[n.name] = max(most, self.largest.get(n.name, 0.0))
        return made


def largest_values(program: ExportedProgram, samples: Iterable[Sequence[Any]]) -> dict[str, float]:
    """The largest finite absolute value of each node's result.  ``samples``: arrays in the order of the program's inputs."""
    module = program.module()
    watching = _Watching(module)
    placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
    names = dict(zip((n.name for n in placeholders), program.graph_signature.user_inputs, strict=False))
    with torch.no_grad():
        for sample in samples:
            given = [
                torch.as_tensor(value).to(n.meta["val"].dtype)
                for n, value in zip(placeholders, sample, strict=True)
            ]
            watching.run(*given)
    return {
        str(names.get(name, name)): most for name, most in watching.largest.items() if math.isfinite(most)
    }
