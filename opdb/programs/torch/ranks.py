"""Rewrites permutations of six or more dimensions between views in at most five: QNN's tensors have no more.

A view, a permutation and a view (windows of Swin, pixel shuffles) move blocks of numbers.  Dimensions that stay adjacent move
as one, dimensions of size 1 do not move at all.  If more than five are left, two blocks change places first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from opdb.programs.torch.in_place import copy_of, recompiled
from opdb.programs.torch.views import keeps_order, seen

MOST = 5  # dimensions
aten = torch.ops.aten
#: The edge dialect has copying forms.
EXCHANGES = {aten.transpose.int, aten.transpose_copy.int}
PERMUTATIONS = {aten.permute.default, aten.permute_copy.default, *EXCHANGES}
#: Elementwise targets, which take any shape.
BY_ELEMENT = {
    "quantized_decomposed.quantize_per_tensor.default", "quantized_decomposed.dequantize_per_tensor.default",
    "aten.clone.default", "aten.contiguous.default", "aten.alias.default", "aten.detach.default",
}  # fmt: skip


def in_fewer_dimensions(exported: ExportedProgram) -> ExportedProgram:
    """A copy of the program with such permutations in at most five dimensions; ``exported`` itself if it has none."""
    if not any(_found(node) for node in exported.graph.nodes):
        return exported
    made, _ = copy_of(exported)
    lower_ranks(made.graph)
    return recompiled(made)


def lower_ranks(graph: Graph) -> bool:
    """Changes the graph in place, keeping the names of nodes; returns True if anything changed."""
    changed = False
    for node in list(graph.nodes):
        if (way := _found(node)) is not None:
            _lower(graph, way)
            changed = True
    if changed:
        graph.eliminate_dead_code()  # views of views
    return changed


@dataclass(frozen=True)
class _Way:
    """``base``: the tensor under the first view.  ``before``, ``after``: elementwise nodes on both sides of the permutation."""

    view: Node
    base: Node
    node: Node
    order: tuple[int, ...]
    before: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    ends: list[tuple[Node, Node]] = field(default_factory=list)  # the views after it, and what each reads


def _found(node: Node) -> _Way | None:
    """The views and nodes around a permutation of more than five dimensions; None if it is not between views."""
    if node.op != "call_function" or node.target not in PERMUTATIONS or len(_shape(node)) <= MOST:
        return None
    if not all(isinstance(d, int) for d in _shape(node)):
        return None
    before: list[Node] = []
    at = node.args[0]
    while isinstance(at, Node) and _by_element(at) and len(at.users) == 1:
        before.insert(0, at)
        at = at.args[0]
    if not isinstance(at, Node) or not keeps_order(at):
        return None
    after: list[Node] = []
    ends: list[tuple[Node, Node]] = []
    waiting = [(user, node) for user in node.users]
    while waiting:
        user, source = waiting.pop(0)
        if keeps_order(user):
            inner = len(_shape(user)) > MOST and all(map(keeps_order, user.users))
            waiting += [(u, source) for u in user.users] if inner else []
            ends += [] if inner else [(user, source)]
        elif _by_element(user):
            after.append(user)
            waiting += [(u, user) for u in user.users]
        else:
            return None
    return _Way(at, seen(at), node, _order(node), before, after, ends) if ends else None


def _by_element(node: Node) -> bool:
    return node.op == "call_function" and str(node.target) in BY_ELEMENT


def _order(node: Node) -> tuple[int, ...]:
    rank = len(_shape(node))
    if node.target in EXCHANGES:
        order = list(range(rank))
        a, b = (d % rank for d in node.args[1:])
        order[a], order[b] = order[b], order[a]
        return tuple(order)
    return tuple(d % rank for d in node.args[1])


def _lower(graph: Graph, way: _Way) -> None:
    shape, steps = permutations(_shape(way.node.args[0]), way.order)
    view = way.view
    if len(view.users) > 1:
        with graph.inserting_after(view):
            view = graph.call_function(aten.reshape.default)
            view.meta = dict(way.view.meta)
        reader = way.before[0] if way.before else way.node
        reader.replace_input_with(way.view, view)
    _as_view(view, way.base, shape)
    for node in way.before:
        _reshaped(node, shape)
    source = way.node.args[0]
    for given, order in steps[:-1]:
        with graph.inserting_before(way.node):
            source = _as_view(_new(graph, way.node), source, given)
            source = _as_permutation(_new(graph, way.node), source, order)
    given, order = steps[-1]
    if given != _shape(source):
        with graph.inserting_before(way.node):
            source = _as_view(_new(graph, way.node), source, given)
    if order == tuple(range(len(order))):
        _as_view(way.node, source, given)
    else:
        _as_permutation(way.node, source, order)
    for node in way.after:
        _reshaped(node, _shape(way.node))
    for node, source in way.ends:
        _as_view(node, source, _shape(node))


def _new(graph: Graph, like: Node) -> Node:
    made = graph.call_function(aten.permute.default)
    made.meta = dict(like.meta)
    return made


def _as_view(node: Node, source: Node, shape: Sequence[int]) -> Node:
    node.target, node.args, node.kwargs = aten.reshape.default, (source, list(shape)), {}
    return _reshaped(node, shape)


def _as_permutation(node: Node, source: Node, order: Sequence[int]) -> Node:
    node.target, node.args, node.kwargs = aten.permute.default, (source, list(order)), {}
    return _reshaped(node, [_shape(source)[d] for d in order])


def _reshaped(node: Node, shape: Sequence[int]) -> Node:
    node.meta["val"] = node.meta["val"].new_empty(list(shape))
    return node


def permutations(
    shape: Sequence[int], order: Sequence[int]
) -> tuple[list[int], list[tuple[list[int], tuple[int, ...]]]]:
    """The same permutation in at most ``MOST`` dimensions: a shape to begin with, and (shape, order) of each step."""
    sizes, order = merged(shape, order)
    steps: list[tuple[list[int], tuple[int, ...]]] = []
    while len(sizes) > MOST:
        # Move the first block that is not in its place there; the blocks in between follow.
        to = next(place for place, d in enumerate(order) if place != d)
        at = order[to]
        blocks = [sizes[:to], sizes[to:at], sizes[at : at + 1], sizes[at + 1 :]]
        steps.append(([prod(block) for block in blocks], (0, 2, 1, 3)))
        moved = [*range(to), at, *range(to, at), *range(at + 1, len(sizes))]
        sizes, order = merged([sizes[d] for d in moved], [moved.index(d) for d in order])
    steps.append((sizes, tuple(order)))
    return steps[0][0], steps


def merged(shape: Sequence[int], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """A permutation without dimensions of size 1, with dimensions that stay adjacent merged."""
    order = [d for d in order if shape[d] != 1]
    groups: list[list[int]] = []
    kept = [d for d, size in enumerate(shape) if size != 1]
    follows = dict(pairwise(kept))
    for d in order:
        if groups and follows.get(groups[-1][-1]) == d:
            groups[-1].append(d)
        else:
            groups.append([d])
    ranked = sorted(groups)
    return [prod(shape[d] for d in g) for g in ranked] or [1], [ranked.index(g) for g in groups] or [0]


def _shape(node: Node) -> list[int]:
    value = node.meta.get("val")
    return list(value.shape) if isinstance(value, torch.Tensor) else []
