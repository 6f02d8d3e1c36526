"""Data types and shapes at the ends of a lowered module; dynamic shapes are refused, with the cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

#: ExecuTorch's ScalarType.
SCALAR_TYPES = {
    torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.int32: 3, torch.int64: 4, torch.float16: 5,
    torch.float32: 6, torch.float64: 7, torch.bool: 11, torch.bfloat16: 15, torch.uint16: 27, torch.uint32: 28,
}  # fmt: skip
TORCH_TYPES = {code: dtype for dtype, code in SCALAR_TYPES.items()}


def symbolic(node: Node, program: ExportedProgram) -> str:
    """The reason and the cure if a dimension of ``node`` or its inputs is only known at run time; "" if all are fixed."""
    for source in (node, *node.all_input_nodes):
        for value in _values(source.meta.get("val")):
            dims = value.shape if isinstance(value, torch.Tensor) else (value,)
            for dim in dims:
                if isinstance(dim, (torch.SymInt, torch.SymFloat, torch.SymBool)):
                    return _refusal(source, dim, program)
    return ""


def _refusal(source: Node, dim: Any, program: ExportedProgram) -> str:
    text = f"{source.name} has the dimension {dim}, which only the run knows{_range(dim, program)}"
    return (
        f"{text}; QNN's graphs have fixed shapes: export without dynamic_shapes at the largest size and pad the inputs "
        "(opdb.plugins.executorch.delegate.shapes.Padded), or export a method for each size"
    )


def _range(dim: Any, program: ExportedProgram) -> str:
    """The range of a dimension, e.g. ", from 2 to 128"; "" if unknown."""
    known = {str(symbol): bounds for symbol, bounds in program.range_constraints.items()}
    bounds = known.get(str(dim))
    return "" if bounds is None else f", from {bounds.lower} to {bounds.upper}"


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for v in value:
            yield from _values(v)
    elif value is not None:
        yield value


class Padded(torch.nn.Module):  # type: ignore[misc]  # untyped base
    """Runs inputs of up to a maximum size in a module of fixed size; use it instead of bounded ``dynamic_shapes``.

    ``pad`` fills inputs up with ``fill`` along ``dim``; ``cut`` trims results of that size again.  This is correct
    if the padding does not change the rest, e.g. for a causal decoder, or with a mask among the inputs.  Export this
    module, and call ``pad`` and ``cut`` in Python.
    """

    def __init__(self, module: torch.nn.Module, dim: int, size: int, fill: float = 0) -> None:
        super().__init__()
        self.module, self.dim, self.size, self.fill = module, dim, size, fill

    def forward(self, *args: torch.Tensor) -> Any:
        """Calls ``module`` at the exported size; torch.export sees this."""
        return self.module(*args)

    def pad(self, *args: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The inputs padded to the exported size.  Raises ValueError for larger ones."""
        return tuple(self._padded(a) for a in args)

    def _padded(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() <= self.dim:
            return x
        missing = self.size - x.shape[self.dim]
        if missing < 0:
            raise ValueError(
                f"{x.shape[self.dim]} along dimension {self.dim}: at most {self.size} were exported"
            )
        filling = list(x.shape)
        filling[self.dim] = missing
        return torch.cat([x, x.new_full(filling, self.fill)], self.dim)

    def cut(self, results: Any, size: int) -> tuple[torch.Tensor, ...]:
        """The results for an input of size ``size`` along the dimension."""
        return tuple(
            r.narrow(self.dim, 0, size) if r.dim() > self.dim and r.shape[self.dim] == self.size else r
            for r in results
        )
