"""Views and permutations that leave the order of a tensor's numbers alone, as one view.

PyTorch's einsum moves dimensions of size 1 about: four operators where a view says the same (HTP-0354), which
benchmarks/htp_views.py counts.

Also what a view shows: its base, and whether constants alone make that.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import dropwhile
from math import prod
from typing import Any

import torch
from torch.fx import Graph, Node

Shape = tuple[int, ...]
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

PERMUTATIONS = {
    aten.permute.default, aten.permute_copy.default, aten.transpose.int, aten.transpose_copy.int, aten.mT.default,
    aten.t.default, aten.numpy_T.default, aten.swapaxes.default, aten.swapdims.default, aten.movedim.int,
}  # fmt: skip
#: What HTP's compiler makes part of a convolution, where the other operand is a constant.
SCALINGS = {aten.mul.Tensor, aten.div.Tensor, aten.add.Tensor, aten.sub.Tensor}


def between_views(node: Node) -> bool:
    """Whether views before and behind the node change its last dimension in one of the ways that HTP's compiler gets wrong.

    They mix rows with columns, or split the columns on both sides.  A view is a chain of views too.  Harmless are rows of one
    dimension, apart from dimensions of size 1 in front, that each view keeps, with columns that at most one side splits, as
    attention's heads do: ``benchmarks/htp_views.py --heads``.
    """
    given = [n for n in node.all_input_nodes if keeps_order(n)]
    taken = [end for n in node.users if keeps_order(n) for end in _chain(n)]
    changed = any(_last(seen(n)) != _last(n) for n in given) or any(
        _last(end) != _last(node) for end in taken
    )
    if not given or not taken or not changed:
        return False
    first = [n for n in given if n is node.args[0]]
    if any(_last(seen(n)) != _last(n) for n in given if n not in first):
        return True
    if not all(isinstance(d, int) for n in first for d in _shape(seen(n))):
        return True
    before = [_matrix(_shape(seen(n)), _shape(n)) for n in first]
    after = [_matrix(_shape(end), _shape(node)) for end in taken]
    shown = {m and m[0] for m in (*before, *after)}
    own = _rows(_shape(node)[:-1])
    if shown != {own} or len(own) > 1:
        return True
    return any(m and m[1] for m in before) and any(m and m[1] for m in after)


def _matrix(seen_as: Shape, shape: Shape) -> tuple[Shape, bool] | None:
    """The rows of ``shape`` where it is seen as ``seen_as``, and whether its last dimension is several; None where they mix."""
    if seen_as[-1:] == shape[-1:]:
        return _rows(seen_as[:-1]), False
    for at in reversed(range(len(seen_as))):
        if prod(seen_as[at:]) == prod(shape[-1:]) > 1:
            return _rows(seen_as[:at]), True
    return None


def _rows(shape: Shape) -> Shape:
    """Without dimensions of size 1 in front."""
    return tuple(dropwhile(lambda d: d == 1, shape))


def read_in_ranks(node: Node) -> set[int]:
    """The ranks of the node's result, and of what the nodes that read it, or views of it, make."""
    readers = [
        user
        for of in (node, *(v for n in node.users if keeps_order(n) for v in _chain(n)))
        for user in of.users
    ]
    return {len(_shape(n)) for n in (node, *readers) if isinstance(n.meta.get("val"), torch.Tensor)}


def shown(node: Node) -> set[Shape]:
    """The shapes of the views of a node's result, also behind permutations, sums and products."""
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
    """What a chain of views sees."""
    while keeps_order(node):
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
        if keeps_order(user):
            yield from _chain(user)


def shorten(graph: Graph) -> None:
    """Changes the graph in place; the names of what is left stay."""
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
    """Whether a node is a view, or a permutation, that leaves the order of the numbers alone."""
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
    """The operator of PyTorch that a node calls, also in the edge dialect."""
    target = node.target
    return target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)


def _last(node: Node) -> Shape:
    return _shape(node)[-1:]


def _shape(node: Node) -> Shape:
    """The rank, or -1 for a value that is not a tensor; dimensions may be symbolic."""
    value = node.meta.get("val")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else (-1,)
