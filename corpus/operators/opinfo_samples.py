"""PyTorch's own samples of operators (OpInfo), each as a module and its inputs.

A sample is one call.  Its tensors are the inputs of the module; in the second form all but the first are constants of
it, as weights and indices are in a model.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from opinfo_compare import rounded
from torch import Tensor, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

#: Data types in which every sample is run, and types that no backend accepts: one sample shows the refusal.
TAKEN = (torch.float32, torch.int32, torch.int64, torch.bool)
UNTAKEN = (torch.float64, torch.complex64)
BY_NAME = {info.full_name: info for info in op_db}
SEED = 7


class Call(nn.Module):
    """Calls ``op`` with a tree of arguments; _PLACE among its ``leaves`` is a tensor, the last ones are constants."""

    def __init__(self, op: Callable[..., Any], leaves: list[Any], tree: Any, constants: list[Tensor]) -> None:
        super().__init__()
        self.op, self.leaves, self.tree = op, leaves, tree
        for i, constant in enumerate(constants):
            self.register_buffer(f"constant{i}", constant)
        self.constants = len(constants)

    def forward(self, *tensors: Tensor) -> Any:
        given = iter((*tensors, *(getattr(self, f"constant{i}") for i in range(self.constants))))
        leaves = [next(given) if v is _PLACE else v for v in self.leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self.tree)
        return self.op(*args, **kwargs)


class _Place:
    """Marks the position of a tensor."""


_PLACE = _Place()


@dataclass(frozen=True)
class Sample:
    """``id``; e.g. nn.functional.relu-float32-3."""

    id: str
    number: int
    op: Callable[..., Any]
    arguments: tuple[Any, ...]  # args and kwargs

    def forms(self) -> Iterator[tuple[str, Call, tuple[Tensor, ...]]]:
        """(name, module, inputs): all tensors are inputs; then all but the first are constants, if there are more."""
        flat, tree = pytree.tree_flatten(self.arguments)
        tensors = tuple(v.detach() for v in flat if isinstance(v, Tensor))
        leaves = [_PLACE if isinstance(v, Tensor) else v for v in flat]
        yield "inputs", Call(self.op, leaves, tree, []).eval(), tensors
        if len(tensors) > 1:
            yield (
                "constants",
                Call(self.op, leaves, tree, [rounded(t) for t in tensors[1:]]).eval(),
                tensors[:1],
            )


def samples(name: str, dtype: torch.dtype) -> Iterator[Sample]:
    """The samples of an OpInfo, the same on every call; none if it does not support the data type."""
    info = BY_NAME[name]
    if dtype not in info.supported_dtypes("cpu"):
        return
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, s in enumerate(info.sample_inputs("cpu", dtype)):
            yield Sample(f"{name}-{kind_of(dtype)}-{i}", i, info.op, ((s.input, *s.args), s.kwargs))


def kind_of(dtype: torch.dtype) -> str:
    """The name of the data type; e.g. float32."""
    return str(dtype).removeprefix("torch.")
