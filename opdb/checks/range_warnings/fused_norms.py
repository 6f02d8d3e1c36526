"""Finds the nodes that compilation fuses into one op: no value between them exists, so none can overflow.

Two passes of opdb.lower.passes make that op from QNN ops; here the same chains are found among PyTorch's nodes, before lowering. The
two must agree: a chain that only this file knows hides a real overflow, one that only the pass knows gives a false warning.

- ``fuse-norms`` (opdb/lower/passes/norms.py): RmsNorm and LayerNorm (``_root`` there, ``_divided_by_root`` here), L2Norm
  (``Found.kind == "L2Norm"`` there, ``_divided_by_length`` here).  Its Softmax squares nothing.
- ``fuse-responses`` (opdb/lower/passes/responses.py): Lrn (``_response`` there, ``_local_response`` here).
"""

from __future__ import annotations

from torch.fx import Node

from opdb.checks.range_warnings.squares import NORMS, squared_input
from opdb.programs.torch.bounds import operator_of
from opdb.programs.torch.encodings import arguments

#: Operators that torch.nn.functional.local_response_norm puts around its average.
AROUND_AVERAGE = ("view", "unsqueeze", "squeeze", "pad", "constant_pad_nd", "avg_pool2d", "avg_pool3d")
#: The largest rank for which fuse-responses makes an Lrn.
LRN_RANK = 4

#: The names of the nodes that become one op; () if ``square`` does not begin such a chain.
Names = tuple[str, ...]


def fused_with(square: Node) -> Names:
    """The nodes of the norm that begins with the node ``square``, except the last one, whose result is that of the fused op."""
    x, name = squared_input(square), operator_of(square)
    if x is None:
        return ()
    if name == "mul" and (inside := _local_response(square, x)):
        return inside
    if not _keeps_last_axis(_only_reader(square, ("mean", "sum")) or square):
        return ()
    if name == "var":
        return _divided_by_root(square, [square], x, centered=True) if _is_biased(square) else ()
    if name in NORMS:
        return _divided_by_length(square, [square], x)
    reduced = _only_reader(square, ("mean", "sum"))
    if reduced is None:
        return ()
    if operator_of(reduced) == "mean":
        return _divided_by_root(reduced, [square, reduced], x)
    root = _only_reader(reduced, ("sqrt",))
    return () if root is None else _divided_by_length(root, [square, reduced, root], x)


def _divided_by_root(mean: Node, inside: list[Node], x: Node, *, centered: bool = False) -> Names:
    """``inside`` and the nodes after it if x is divided by the root of ``mean`` plus a number; x minus its mean if ``centered``."""
    plus_epsilon = _only_reader(mean, ("add",))
    root = plus_epsilon and _only_reader(plus_epsilon, ("rsqrt", "sqrt"))
    last = root and _only_reader(root, ("mul",) if operator_of(root) == "rsqrt" else ("div",))
    if plus_epsilon is None or root is None or last is None:
        return ()
    divided = [n for n in last.all_input_nodes if n is not root]
    is_x = any(operator_of(n) == "sub" and n.args[0] is x for n in divided) if centered else x in divided
    return tuple(n.name for n in (*inside, plus_epsilon, root)) if is_x else ()


def _divided_by_length(length: Node, inside: list[Node], x: Node) -> Names:
    """``inside`` and the nodes after it if x is divided by ``length``, clamped to a minimum."""
    clamped = _only_reader(length, ("clamp_min", "clamp", "maximum"))
    divisor = clamped and (_only_reader(clamped, ("expand", "expand_as")) or clamped)
    last = divisor and _only_reader(divisor, ("div",))
    if clamped is None or last is None or last.args[0] is not x:
        return ()
    return tuple(n.name for n in (*inside, clamped))


def _local_response(square: Node, x: Node) -> Names:
    """The nodes of a local response normalization."""
    inside = [square]
    while after := _only_reader(inside[-1], AROUND_AVERAGE):
        inside.append(after)
    if x.meta["val"].dim() > LRN_RANK or not _averages_channels(inside):
        return ()
    for name in ("mul", "add", "pow"):
        after = _only_reader(inside[-1], (name,))
        if after is None or not isinstance(after.args[1], (int, float)):
            return ()
        inside.append(after)
    last = _only_reader(inside[-1], ("div",))
    return tuple(n.name for n in inside) if last is not None and last.args[0] is x else ()


def _averages_channels(nodes: list[Node]) -> bool:
    """True if one node averages over an odd number of channels, and another pads both sides of them with half as many zeros."""
    windows = [n.args[1] for n in nodes if operator_of(n).startswith("avg_pool")]
    paddings = [n.args[1] for n in nodes if operator_of(n) in ("pad", "constant_pad_nd")]
    if len(windows) != 1 or len(paddings) != 1:
        return False
    (channels, *others), (*rest, before, after) = windows[0], paddings[0]
    return set(others) == {1} and not any(rest) and channels % 2 == 1 and before == after == channels // 2


def _is_biased(var: Node) -> bool:
    """True if a variance divides by n."""
    given = arguments(var)
    return not given.get("correction", given.get("unbiased", True))


def _only_reader(node: Node, operators: tuple[str, ...]) -> Node | None:
    """The only reader of ``node`` if it calls one of these operators."""
    users = list(node.users)
    return users[0] if len(users) == 1 and operator_of(users[0]) in operators else None


def _keeps_last_axis(node: Node) -> bool:
    """True if a mean, sum, variance or length is only over the last dimension, and keeps it."""
    given = arguments(node)
    axes, rank = given.get("dim"), node.args[0].meta["val"].dim()
    return (
        bool(given.get("keepdim"))
        and isinstance(axes, (list, tuple))
        and [a % rank for a in axes] == [rank - 1]
    )
