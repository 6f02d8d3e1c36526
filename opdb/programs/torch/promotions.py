"""Gives each operator operands of one data type: a promotion inside PyTorch's operator becomes a conversion before it.

``x * mask`` is ``x * mask.to(float32)``, ``n / 2`` is ``n.to(float32) / 2``.  QNN's ops read tensors of one type.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from opdb.programs.torch.bounds import operator_of
from opdb.programs.torch.in_place import copy_of, recompiled

#: Operators whose operands are converted to the operands' common data type; the result is boolean.
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
#: Operators whose operands are converted to the data type of the result.
ARITHMETIC = frozenset({
    "add", "sub", "rsub", "mul", "div", "true_divide", "floor_divide", "fmod", "remainder", "pow", "maximum", "minimum", "fmax",
    "fmin", "atan2", "hypot", "copysign", "xlogy", "lerp", "addcmul", "addcdiv", "clamp", "clamp_min", "clamp_max", "where", "cat",
    "stack", "bitwise_and", "bitwise_or", "bitwise_xor",
})  # fmt: skip
#: Operators that make floats from integers and booleans.
TO_FLOATS = frozenset({
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p",
    "log2", "logit", "reciprocal", "rsqrt", "sigmoid", "sin", "sinc", "sinh", "sqrt", "tan", "tanh",
})  # fmt: skip

#: QNN has int32 for both.
WHOLE = frozenset({torch.int32, torch.int64})
#: QNN cannot compare numbers of these types; int32 has all their values.
SMALL = frozenset({torch.uint8, torch.int8, torch.int16})


def promoted(exported: ExportedProgram) -> ExportedProgram:
    """A copy of the program with such conversions; ``exported`` itself if it needs none."""
    if not any(_converted(node) for node in exported.graph.nodes):
        return exported
    made, _ = copy_of(exported)
    _convert(made.graph)
    return recompiled(made)


def _convert(graph: Graph) -> None:
    copies: dict[tuple[Node, torch.dtype], Node] = {}
    for node in list(graph.nodes):
        found = _converted(node).items()
        for place in found:
            if place not in copies:
                with graph.inserting_before(node):
                    copies[place] = conversion(graph, *place, node)
        _read(node, {place[0]: copies[place] for place in found})


def _read(node: Node, instead: dict[Node, Node]) -> None:
    """Replaces operands of ``node``, except the condition by which it chooses."""

    def other(operand: Node) -> Node:
        return instead.get(operand, operand)

    first = _chooses(node)
    node.args = (*node.args[:first], *map_arg(node.args[first:], other))
    node.kwargs = map_arg(node.kwargs, other)


def conversion(graph: Graph, source: Node, dtype: torch.dtype, reader: Node) -> Node:
    """A node that converts ``source`` for ``reader``, at the place where ``graph`` inserts, named e.g. mask_as_float32."""
    name = f"{source.name}_as_{str(dtype).removeprefix('torch.')}"
    target = torch.ops.aten._to_copy.default
    made = graph.create_node("call_function", target, (source,), {"dtype": dtype}, name)
    kept = {k: v for k, v in reader.meta.items() if k in ("stack_trace", "nn_module_stack", "from_node")}
    made.meta = {**kept, "val": torch.empty_like(source.meta["val"], dtype=dtype)}
    return made


def _converted(node: Node) -> dict[Node, torch.dtype]:
    """The operands of ``node`` to convert, and their new data types."""
    return {o: dtype for o, dtype in _operands(node) if o.meta["val"].dtype != dtype}


def _operands(node: Node) -> Iterator[tuple[Node, torch.dtype]]:
    """The operands of an operator that promotes, and the data type that it computes in."""
    what, value = operator_of(node), node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return
    read: list[Node] = []
    map_arg((node.args[_chooses(node) :], node.kwargs), read.append)
    dtype: torch.dtype | None = None
    if what in COMPARISONS and len(node.args) == 2:
        dtype = _together(node)
    elif what in ARITHMETIC or (what in TO_FLOATS and value.is_floating_point()):
        dtype = value.dtype
    if dtype is not None:
        yield from ((n, dtype) for n in read if not {n.meta["val"].dtype, dtype} <= WHOLE)


def _together(comparison: Node) -> torch.dtype:
    """The data type for the comparison."""
    left, right = map_arg(comparison.args, lambda n: n.meta["val"])
    dtype = torch.result_type(left, right)
    return torch.int32 if dtype in SMALL else dtype


def _chooses(node: Node) -> int:
    """The number of leading boolean arguments by which the operator chooses; they are not converted."""
    return int(operator_of(node) == "where")
