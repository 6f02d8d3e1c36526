"""Carries encodings over nodes that only move elements: transposed integers are the same integers, with the same encoding.

Files give encodings for nodes that compute, not always for nodes that move: TensorFlow Lite's images are transposed for convolutions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable

from torch.fx import Node

from opdb.programs.torch.encodings import Encoded, Encodings, Key, is_dequantize
from opdb.runtime.axes import permuted, reshaped

#: Targets that permute the dimensions of their first argument.
ORDERING = frozenset({"aten.permute.default", "aten.t.default", "aten.transpose.int"})
#: Targets that give their first argument another shape, with its elements in the same order.
SHAPING = frozenset({
    "aten.reshape.default", "aten.squeeze.dim", "aten.squeeze.dims", "aten.unsqueeze.default", "aten.view.default",
})  # fmt: skip
#: Targets that put zeros around their first argument; every encoding has a stored value for zero.
PADDING = frozenset({"aten.constant_pad_nd.default", "aten.pad.default"})
#: Targets whose result has only elements of their first argument, and zeros.
MOVING = ORDERING | SHAPING | PADDING | {
    "aten.expand.default", "aten.flip.default", "aten.index_select.default", "aten.select.int", "aten.slice.Tensor",
}  # fmt: skip


def moved(node: Node, found: Encoded) -> Encoded | None:
    """The encoding ``found`` after ``node`` moved the elements; None if it cannot follow the move."""
    dtype, quant = found
    target = str(node.target)
    if target not in MOVING or target in PADDING:
        return None
    if quant.axis is None:
        return found
    shape = node.meta["val"].shape
    if target in SHAPING and quant.blocks is None:
        followed = reshaped(quant, node.args[0].meta["val"].shape, shape)
        return None if followed is None else (dtype, followed)
    if target not in ORDERING:
        return None
    rank = len(shape)
    order = list(range(rank))
    if target == "aten.permute.default":
        order = [int(d) % rank for d in node.args[1]]
    elif rank > 1:
        a, b = (0, 1) if target == "aten.t.default" else (int(d) % rank for d in node.args[1:3])
        order[a], order[b] = order[b], order[a]
    return dtype, permuted(quant, order)


def along_moves(encodings: Encodings, nodes: Iterable[Node], origin: Callable[[Node], Key]) -> None:
    """Gives a moved tensor the encoding of its source; then a source without one the encoding of its moved tensor."""
    moving = [
        n
        for n in nodes
        if _moves(n)
        and n.name not in encodings.in_floats
        and n.meta["val"].dtype.is_floating_point  # not plain integers
    ]
    for node in moving:
        source = node.args[0]
        found = encodings.of.get(encodings.operands.get(source) or origin(source))
        if found is not None and found[1].axis is None and not any(map(encodings.takes_floats, node.users)):
            encodings.of.setdefault(origin(node), found)
    for node in reversed(moving):
        source, found = node.args[0], encodings.of.get(origin(node))
        maker = source.args[0] if source.target is operator.getitem else source
        if (
            found is not None
            and found[1].axis is None
            and source.op == "call_function"
            and len(source.users) == 1
            and maker.name not in encodings.in_floats
            and not is_dequantize(source)
            and origin(source)[0] == maker.name
        ):
            encodings.of.setdefault(origin(source), found)


def _moves(node: Node) -> bool:
    target = str(node.target)
    if target == "aten.pad.default" and (node.args[2:3] or ("constant",)) != ("constant",):
        return False
    values = {"aten.constant_pad_nd.default": node.args[2:3], "aten.pad.default": node.args[3:4]}
    return target in MOVING and not any(values.get(target, ()))
