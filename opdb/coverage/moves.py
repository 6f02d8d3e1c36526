"""Views and permutations that leave the order of a tensor's numbers alone, as one view.

PyTorch's einsum moves dimensions of size 1 about: four operators where a view says the same (HTP-0354), which
benchmarks/htp_views.py counts.

Also what a view shows: its base, and whether constants alone make that.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import torch
from torch.fx import Graph, Node

aten = torch.ops.aten
VIEWS = {
    aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.flatten.using_ints,
}  # fmt: skip
#: The edge dialect has copying forms of them.
COPIES = {
    aten.view_copy.default, aten.unsqueeze_copy.default, aten.squeeze_copy.default, aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
}  # fmt: skip


def between_views(node: Node) -> bool:
    """Whether views give to the node and take of it, and one of them, or a chain of them, changes the last dimension."""
    given = [n for n in node.all_input_nodes if _keeps_order(n)]
    taken = [n for n in node.users if _keeps_order(n)]
    changed = any(_last(seen(n)) != _last(n) for n in given) or any(
        _last(end) != _last(node) for n in taken for end in _chain(n)
    )
    return bool(given and taken) and changed


def read_in_ranks(node: Node) -> set[int]:
    """The ranks of the node's result, and of what the nodes that read it, or views of it, make."""
    readers = [
        user
        for of in (node, *(v for n in node.users if _keeps_order(n) for v in _chain(n)))
        for user in of.users
    ]
    return {len(_shape(n)) for n in (node, *readers) if isinstance(n.meta.get("val"), torch.Tensor)}


def seen(node: Node) -> Node:
    """What a chain of views sees."""
    while _keeps_order(node):
        node = node.args[0]
    return node


def of_constants(node: Node, constants: Container[str]) -> bool:
    """Whether a node is one of ``constants``, by name, or calls make it of them alone."""
    waiting, met = [node], {node}
    while waiting:
        some = waiting.pop()
        if some.op != "call_function" and some.name not in constants:
            return False
        new = [n for n in some.all_input_nodes if n not in met]
        met.update(new)
        waiting += new
    return True


def _chain(view: Node) -> Iterator[Node]:
    """A view and all that are made of it alone."""
    yield view
    for user in view.users:
        if _keeps_order(user):
            yield from _chain(user)


def shorten(graph: Graph) -> None:
    """Changes the graph in place; the names of what is left stay."""
    for node in list(graph.nodes):
        if not _keeps_order(node):
            continue
        base = seen(node)
        if _shape(base) == _shape(node) and not any(user.op == "output" for user in node.users):
            node.replace_all_uses_with(base)
        elif base is not node.args[0] or node.target not in VIEWS:
            node.target, node.args, node.kwargs = aten.view.default, (base, list(_shape(node))), {}
    graph.eliminate_dead_code()


def _keeps_order(node: Node) -> bool:
    if node.op != "call_function" or not all(isinstance(d, int) for d in _shape(node)):
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        target = getattr(target, "_op", None)  # of the edge dialect
    if target in VIEWS or target in COPIES:
        return True
    if target not in (aten.permute.default, aten.permute_copy.default):
        return False
    shape, dims = _shape(node.args[0]), node.args[1]
    moved = [d % len(shape) for d in dims if shape[d] != 1]
    return moved == sorted(moved)


def _last(node: Node) -> tuple[object, ...]:
    return _shape(node)[-1:]


def _shape(node: Node) -> tuple[object, ...]:
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ("no tensor",)
