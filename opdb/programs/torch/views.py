"""Joins views, and permutations that keep the order of a tensor's elements, into one view.

PyTorch's einsum moves dimensions of size 1 around: four operators instead of one view (HTP-0354), which
benchmarks/htp_views.py counts.

Also finds the base of a view, and tells if only constants make it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

import torch
from torch.fx import Graph, Node

from opdb.lower.workarounds.htp.views_around import Seen, Shape, wrong_between

aten = torch.ops.aten
VIEWS = {
    aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.unsqueeze.default, aten.squeeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.flatten.using_ints,
}  # fmt: skip
#: Their copying forms in the edge dialect.
COPIES = {
    aten.view_copy.default, aten.unsqueeze_copy.default, aten.squeeze_copy.default, aten.squeeze_copy.dim,
    aten.squeeze_copy.dims,
}  # fmt: skip

PERMUTATIONS = {
    aten.permute.default, aten.permute_copy.default, aten.transpose.int, aten.transpose_copy.int, aten.mT.default,
    aten.t.default, aten.numpy_T.default, aten.swapaxes.default, aten.swapdims.default, aten.movedim.int,
}  # fmt: skip
#: Operators that HTP's compiler folds into a convolution if the other operand is a constant.
SCALINGS = {aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor}


def between_views(node: Node) -> bool:
    """True if views before and after the node change its last dimension in one of the ways that HTP's compiler gets wrong.

    A chain of views counts as a view.  opdb.lower.workarounds.htp.views_around lists the wrong ways.
    """
    views = [n for n in node.all_input_nodes if keeps_order(n)]
    first, others = (
        [Seen(_shape(seen(n)), _shape(n)) for n in views if (n is node.args[0]) is is_first]
        for is_first in (True, False)
    )
    after = [Seen(_shape(end), _shape(node)) for n in node.users if keeps_order(n) for end in _chain(n)]
    return wrong_between(_shape(node), first, others, after)


def read_in_ranks(node: Node) -> set[int]:
    """The ranks of the node's result and of the results of nodes that read it or its views."""
    readers = [
        user
        for of in (node, *(v for n in node.users if keeps_order(n) for v in _chain(n)))
        for user in of.users
    ]
    return {len(_shape(n)) for n in (node, *readers) if isinstance(n.meta.get("val"), torch.Tensor)}


def shown(node: Node) -> set[Shape]:
    """The shapes of the views of a node's result, also after permutations, sums and products."""
    shapes, waiting, met = set(), [node], {node}
    while waiting:
        for user in waiting.pop().users:
            view = keeps_order(user)
            if user in met or not (view or _target(user) in PERMUTATIONS | SCALINGS):
                continue
            met.add(user)
            waiting.append(user)
            if view:
                shapes.add(_shape(user))
    return shapes


def seen(node: Node) -> Node:
    """The node under a chain of views."""
    while keeps_order(node):
        node = node.args[0]
    return node


def of_constants(node: Node, constants: Container[str]) -> bool:
    """True if a node is one of ``constants``, by name, or is computed only from them."""
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
    """A view and all chains of views that start with it."""
    yield view
    for user in view.users:
        if keeps_order(user):
            yield from _chain(user)


def shorten(graph: Graph) -> None:
    """Shortens chains of views in the graph in place; the remaining nodes keep their names."""
    for node in list(graph.nodes):
        if not keeps_order(node):
            continue
        base = seen(node)
        if _shape(base) == _shape(node) and not any(user.op == "output" for user in node.users):
            node.replace_all_uses_with(base)
        elif base is not node.args[0] or node.target not in VIEWS:
            node.target, node.args, node.kwargs = aten.view.default, (base, list(_shape(node))), {}
    graph.eliminate_dead_code()


def keeps_order(node: Node) -> bool:
    """True if a node is a view, or a permutation that keeps the order of the elements."""
    if node.op != "call_function" or not all(isinstance(d, int) for d in _shape(node)):
        return False
    target = _target(node)
    if target in VIEWS or target in COPIES:
        return True
    if target not in (aten.permute.default, aten.permute_copy.default):
        return False
    shape, dims = _shape(node.args[0]), node.args[1]
    moved = [d % len(shape) for d in dims if shape[d] != 1]
    return moved == sorted(moved)


def _target(node: Node) -> Any:
    """The PyTorch operator that a node calls, also in the edge dialect."""
    target = node.target
    return target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)


def _shape(node: Node) -> Shape:
    """The shape, or (-1,) for a value that is not a tensor; dimensions may be symbolic."""
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else (-1,)
