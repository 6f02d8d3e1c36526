"""Reversible changes to other modules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Undo = Callable[[], None]


def replaced(owner: Any, name: str, value: Any) -> Undo:
    stock = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, stock)


def sparing(owner: Any, spared: Callable[[Any], bool]) -> Undo:
    """Hides the nodes that are ``spared`` from the pass ``owner``; later steps decompose or lower them."""
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
    """Changes a list in place, since other modules have imported it by name."""
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
