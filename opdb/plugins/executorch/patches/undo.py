"""Changes of another module's things that can be taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Undo = Callable[[], None]


def replaced(owner: Any, name: str, value: Any) -> Undo:
    stock = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, stock)


def sparing(owner: Any, spared: Callable[[Any], bool]) -> Undo:
    """The pass ``owner`` does not see the nodes that are ``spared``; later steps decompose or lower them."""
    import torch

    stock = owner.call

    def call(self: Any, graph_module: Any, *more: Any, **named: Any) -> Any:
        hidden = [(node, node.target) for node in graph_module.graph.nodes if spared(node)]
        for node, _ in hidden:
            node.target = torch.ops.aten.alias.default
        try:
            return stock(self, graph_module, *more, **named)
        finally:
            for node, target in hidden:
                node.target = target
            graph_module.recompile()

    return replaced(owner, "call", call)


def with_contents(listed: list[Any], contents: list[Any]) -> Undo:
    """Changes a list that other modules have imported by name."""
    stock = list(listed)
    listed[:] = contents

    def undo() -> None:
        listed[:] = stock

    return undo


def all_of(undos: Iterable[Undo]) -> Undo:
    done = list(undos)

    def undo() -> None:
        for one in reversed(done):
            one()

    return undo
