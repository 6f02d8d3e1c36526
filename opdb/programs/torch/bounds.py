"""The interval of a node's values, as far as the operators determine it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from opdb.programs.torch.encodings import arguments

#: The smallest and the largest number.
Interval = tuple[float, float]
ALL: Interval = (-math.inf, math.inf)
#: Operators whose results lie between two numbers for any input.
BETWEEN: dict[str, Interval] = {
    **dict.fromkeys(("tanh", "sin", "cos", "erf", "sign"), (-1.0, 1.0)),
    **dict.fromkeys(
        ("sigmoid", "softmax", "_softmax", "_safe_softmax", "hardsigmoid", "one_hot"), (0.0, 1.0)
    ),
}
#: Operators that move, choose or average: no result lies outside the interval of their inputs, apart from ``_changed``.
KEPT = frozenset({
    "view", "reshape", "permute", "transpose", "t", "squeeze", "unsqueeze", "expand", "slice", "select", "relu", "abs", "neg",
    "amax", "amin", "mean", "max_pool2d", "avg_pool2d", "flip", "clone", "alias", "detach", "_to_copy", "to", "type_as",
    "contiguous", "cat", "stack", "split", "chunk", "repeat", "roll", "flatten", "_unsafe_view",
})  # fmt: skip
#: Operators whose results lie in the interval of their first argument; the others are indices.
PICKED = frozenset({"gather", "index_select", "index", "embedding"})
#: Operators whose results are indices along a dimension; WITH_PLACES return them as the second of two tensors.
PLACES = frozenset({"argmax", "argmin", "argsort"})
WITH_PLACES = frozenset({"max", "min", "topk", "sort", "median", "kthvalue", "mode"})
#: Operators among them whose default is the last dimension.
LAST = frozenset({"argsort", "topk", "sort", "kthvalue", "mode"})
LOOKED_AT = 100  # nodes


def operator_of(node: Any) -> str:
    """The operator of a call without namespace and overload; e.g. mul of aten.mul.Tensor."""
    return str(node.target).split(".")[1] if isinstance(node, Node) and "." in str(node.target) else ""


def bound(node: Any) -> float:
    """The largest absolute value: e.g. 1 for a sigmoid, 6 for relu6; infinity for floats about which nothing is known."""
    low, high = interval(node)
    return max(abs(low), abs(high))


def interval(node: Any, known: dict[Node, Interval] | None = None) -> Interval:
    """The interval of a value, e.g. (0, 19) for the argmax of 20 classes, (0, 255) for uint8; infinite for unknown floats.

    ``known``: intervals that were found before.
    """
    if isinstance(node, (int, float)):
        return float(node), float(node)
    known = {} if known is None else known
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, (torch.Tensor, list, tuple)) or (node not in known and len(known) > LOOKED_AT):
        return ALL
    if node not in known:
        known[node] = ALL
        found = _of_call(node, known) if node.op == "call_function" else ALL
        known[node] = _of_type(found, value.dtype) if isinstance(value, torch.Tensor) else found
    return known[node]


def _of_type(found: Interval, dtype: torch.dtype) -> Interval:
    """Limits an interval to a data type; if it passes an end of the type, any value of the type may come out."""
    if dtype == torch.bool:
        return 0.0, 1.0
    if dtype.is_floating_point or dtype.is_complex:
        return found
    ends = float(torch.iinfo(dtype).min), float(torch.iinfo(dtype).max)
    inside = ends[0] <= found[0] and found[1] <= ends[1]
    return _whole(found) if inside else ends


def _whole(x: Interval) -> Interval:
    """The interval after rounding in any direction."""
    low, high = x
    return (math.floor(low) if math.isfinite(low) else low), (
        math.ceil(high) if math.isfinite(high) else high
    )


def _of_call(node: Node, known: dict[Node, Interval]) -> Interval:
    what = operator_of(node)
    if node.target is operator.getitem:
        base, index = node.args
        if operator_of(base) in WITH_PLACES and isinstance(base, Node):
            return _places(base, operator_of(base)) if index == 1 else interval(base.args[0], known)
        return interval(base, known)
    if what in BETWEEN:
        return BETWEEN[what]
    if what in PLACES:
        return _places(node, what)
    if what in KEPT:
        return _changed(what, _union([interval(n, known) for n in node.all_input_nodes]))
    given = [interval(a, known) for a in node.args if isinstance(a, (int, float, Node))]
    if what in PICKED and given:
        return given[0]
    return RULES[what](node, given) if what in RULES and given else ALL


def _places(node: Node, what: str) -> Interval:
    """The interval of indices: from 0 to the last one along the dimension, or in the whole tensor."""
    shape = node.args[0].meta["val"].shape
    given = arguments(node)
    axis = given.get("dim", given.get("axis", -1 if what in LAST else None))
    size = shape.numel() if axis is None else shape[axis] if shape else 1
    return (0.0, max(size - 1.0, 0.0)) if isinstance(size, int) else ALL


def _union(of: list[Interval]) -> Interval:
    return (min(low for low, _ in of), max(high for _, high in of)) if of else ALL


def _changed(what: str, x: Interval) -> Interval:
    """The interval after an operator of KEPT, which keeps, clips or negates values."""
    low, high = x
    if what == "avg_pool2d":  # averages padding, too
        return min(low, 0.0), max(high, 0.0)
    if what == "relu":
        return max(low, 0.0), max(high, 0.0)
    if what == "abs":
        return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))
    return (-high, -low) if what == "neg" else x


def _cut(x: Interval, low: Interval, high: Interval) -> Interval:
    """``x`` clamped between ``low`` and ``high``, which are intervals themselves."""
    return min(max(x[0], low[0]), high[0]), min(max(x[1], low[1]), high[1])


def _clamp(node: Node, given: list[Interval]) -> Interval:
    named = arguments(node)
    default = (-1.0, 1.0) if operator_of(node) == "hardtanh" else (None, None)
    low = named.get("min", named.get("min_val", default[0]))
    high = named.get("max", named.get("max_val", default[1]))
    least: Interval = (-math.inf, -math.inf) if low is None else interval(low)
    most: Interval = (math.inf, math.inf) if high is None else interval(high)
    return _cut(given[0], least, most)


def _sum(node: Node, given: list[Interval]) -> Interval:
    if len(given) != 2 or node.kwargs:
        return ALL
    (a, b), (c, d) = given
    return (a + c, b + d) if operator_of(node) == "add" else (a - d, b - c)


def _product(node: Node, given: list[Interval]) -> Interval:
    ends = [0.0 if 0 in (a, b) else a * b for a in given[0] for b in given[-1]]
    return min(ends), max(ends)


def _quotient(node: Node, given: list[Interval]) -> Interval:
    by = node.args[1] if len(node.args) == 2 else None
    if not isinstance(by, (int, float)) or not by or not math.isfinite(by):
        return ALL
    low, high = sorted(x / by for x in given[0])
    whole = operator_of(node) == "floor_divide" or "rounding_mode" in node.kwargs
    return _whole((low, high)) if whole else (low, high)


def _remainder(node: Node, given: list[Interval]) -> Interval:
    by = node.args[1]
    if not isinstance(by, (int, float)) or by <= 0:
        return ALL
    return 0.0, float(by) - (1.0 if not node.meta["val"].is_floating_point() else 0.0)


def _common_bits(node: Node, given: list[Interval]) -> Interval:
    least = [high for low, high in given if low >= 0]
    return (0.0, min(least)) if least and len(given) == 2 else ALL


def _count(node: Node, given: list[Interval]) -> Interval:
    """Returns the interval of a sum."""
    read, made = node.args[0].meta["val"].numel(), node.meta["val"].numel()
    if not isinstance(read, int) or not isinstance(made, int) or not made:
        return ALL
    return given[0][0] * (read // made), given[0][1] * (read // made)


def _ramp(node: Node, given: list[Interval]) -> Interval:
    """arange(end), arange(start, end), arange(start, end, step)."""
    start, end = (0.0, given[0][0]) if len(given) == 1 else (given[0][0], given[1][0])
    down = len(given) > 2 and given[2][0] < 0
    whole = not node.meta["val"].is_floating_point()
    last = end if not whole else math.floor(end) + 1.0 if down else math.ceil(end) - 1.0
    return (last, start) if down else (start, max(last, start))


Rule = Callable[[Node, list[Interval]], Interval]
#: The interval of an operator's result, from the intervals of its arguments.
RULES: dict[str, Rule] = {
    **dict.fromkeys(("clamp", "clip", "hardtanh"), _clamp),
    "relu6": lambda node, given: _cut(given[0], (0.0, 0.0), (6.0, 6.0)),
    **dict.fromkeys(("clamp_min", "maximum"), lambda node, given: _cut(given[0], given[1], (math.inf, math.inf))),
    **dict.fromkeys(("clamp_max", "minimum"), lambda node, given: _cut(given[0], (-math.inf, -math.inf), given[1])),
    **dict.fromkeys(("add", "sub"), _sum),
    "mul": _product,
    **dict.fromkeys(("div", "floor_divide"), _quotient),
    "remainder": _remainder,
    "bitwise_and": _common_bits,
    "sum": _count,
    **dict.fromkeys(("round", "floor", "ceil", "trunc"), lambda node, given: _whole(given[0])),
    "arange": _ramp,
    "where": lambda node, given: _union(given[1:]),
    "masked_fill": lambda node, given: _union([given[0], given[-1]]),
}  # fmt: skip
