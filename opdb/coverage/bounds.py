"""The largest absolute value that a node's result can have, as far as the operators say it."""

from __future__ import annotations

import math
import operator
from typing import Any

from torch.fx import Node

#: Operators whose results are within [-1, 1].
UNIT = frozenset({"sigmoid", "tanh", "softmax", "_softmax", "sin", "cos", "erf", "sign", "hardsigmoid"})
#: Operators that move, choose or average: no result is larger than the largest argument.
KEPT = frozenset({
    "view", "reshape", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "slice", "select", "relu", "abs", "neg",
    "amax", "amin", "mean", "max_pool2d", "avg_pool2d", "flip", "clone", "alias", "detach", "_to_copy", "contiguous", "cat",
    "stack", "split", "chunk", "repeat", "roll", "gather", "index_select",
})  # fmt: skip
DEPTH = 30


def operator_of(node: Any) -> str:
    """The operator of a call without namespace and overload; e.g. mul of aten.mul.Tensor."""
    return str(node.target).split(".")[1] if isinstance(node, Node) and "." in str(node.target) else ""


def bound(node: Any, depth: int = 0) -> float:
    """e.g. 1 for a sigmoid, 6 for relu6, sqrt(n) for a norm without weights; infinity where nothing is known."""
    if isinstance(node, (int, float)):
        return abs(float(node))
    if not isinstance(node, Node) or node.op != "call_function" or depth > DEPTH:
        return math.inf
    what = operator_of(node)
    if what in UNIT:
        return 1.0
    if what in ("relu6", "hardtanh", "clamp", "clip"):
        return min(_cut(node, what), bound(node.args[0], depth + 1))
    if what in KEPT or node.target is operator.getitem:
        return max((bound(n, depth + 1) for n in node.all_input_nodes), default=math.inf)
    if what in ("add", "sub") and len(node.args) == 2 and not node.kwargs:
        return bound(node.args[0], depth + 1) + bound(node.args[1], depth + 1)
    if what == "mul":
        return bound(node.args[0], depth + 1) * bound(node.args[1], depth + 1)
    if what == "div" and len(node.args) == 2 and isinstance(node.args[1], (int, float)) and node.args[1]:
        return bound(node.args[0], depth + 1) / abs(float(node.args[1]))
    return math.inf


def _cut(node: Node, what: str) -> float:
    if what == "relu6":
        return 6.0
    low, high = (*node.args[1:3], None, None)[:2]
    if what == "hardtanh":
        low, high = (-1.0 if low is None else low), (1.0 if high is None else high)
    ends = [abs(float(e)) if isinstance(e, (int, float)) else math.inf for e in (low, high)]
    return max(ends)
