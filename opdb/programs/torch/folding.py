"""Computes nodes that read only constants while the program is read."""

from __future__ import annotations

import re
from functools import partial
from typing import Any, cast

import torch

from opdb.programs.torch.encodings import is_dequantize, real
from opdb.programs.torch.targets import SHAPE_ONLY
from opdb.programs.torch.tensors import ProgramTensors
from opdb.programs.torch.view_encodings import moved

#: Targets whose elements are undefined.
EMPTY = re.compile(r"aten\.(new_)?empty(_|\.)")
#: Views of tensors that are contiguous in the program; the constant before them may have other strides, since it is not copied.
OF_ANY_STRIDES = {
    "aten.view.default": torch.ops.aten.reshape.default, "aten.view_copy.default": torch.ops.aten.reshape.default,
    "aten._unsafe_view.default": torch.ops.aten.reshape.default,
}  # fmt: skip
MAX_FOLDED = 64 * 1024 * 1024  # bytes of the results of one node


def move_constant(tensors: ProgramTensors, node: torch.fx.Node) -> bool:
    """Moves the stored integers of a constant now, as the node would; returns True if it did."""
    source = node.args[0] if node.args else None
    key = tensors.encodings.operands.get(source) if is_dequantize(source) else None
    if key not in tensors.values:
        return False
    found = moved(node, tensors.encodings.of[key])
    if found is None:
        return False
    tensors.values[node.name, 0] = node.target(tensors.values[key], *node.args[1:], **node.kwargs)
    tensors.encodings.of[node.name, 0] = found
    return True


def fold(tensors: ProgramTensors, node: torch.fx.Node) -> bool:
    """Computes the node now if everything that it reads is known; returns True if it did."""
    if (
        not isinstance(node.target, torch._ops.OpOverload)
        or torch.Tag.nondeterministic_seeded in node.target.tags
    ):
        return False
    target, args = str(node.target), node.args
    read: list[torch.fx.Node] = []
    torch.fx.node.map_arg((args[1:] if target in SHAPE_ONLY else args, node.kwargs), read.append)
    if not all(_is_known(tensors, n) for n in read):
        return False
    reads, made = fake_tensors(node)
    if (
        any(not isinstance(d, int) for t in (*reads, *made) for d in t.shape)
        or sum(t.nbytes for t in made) > MAX_FOLDED
    ):
        return False
    values = {n: _value(tensors, n) for n in read}
    if any(v.is_meta for v in values.values()):  # only shapes and data types
        result: Any = [torch.empty_like(t, device="meta") for t in made]
    else:
        args, kwargs = torch.fx.node.map_arg((args, node.kwargs), partial(_value, tensors))
        with torch.no_grad():
            result = OF_ANY_STRIDES.get(target, node.target)(*args, **kwargs)
    for i, t in enumerate(result if isinstance(result, (list, tuple)) else [result]):
        tensors.values[(node.name, i)] = torch.zeros_like(t) if EMPTY.match(target) else t
    return True


def _is_known(tensors: ProgramTensors, node: torch.fx.Node) -> bool:
    return tensors.origin(node) in tensors.values or tensors.encodings.operands.get(node) in tensors.values


def _value(tensors: ProgramTensors, node: torch.fx.Node) -> torch.Tensor:
    """The value of a tensor; zeros if it is not known and only its shape and data type are read."""
    key, fake = tensors.origin(node), node.meta["val"]
    if key not in tensors.values and is_dequantize(node) and _is_known(tensors, node):
        if tensors.values[tensors.encodings.operands[node]].is_meta:
            return torch.empty_like(fake, device="meta")
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), partial(_value, tensors))
        return cast(torch.Tensor, node.target(*args, **kwargs))
    if key not in tensors.values:
        return torch.zeros(fake.shape, dtype=fake.dtype)
    value = tensors.values[key]
    stored = key in tensors.encodings.of and not value.is_floating_point() and not value.is_meta
    return real(value, tensors.encodings.of[key][1]) if stored and fake.is_floating_point() else value


def fake_tensors(node: torch.fx.Node) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The fake tensors that a node reads and makes."""

    def some(value: Any) -> list[torch.Tensor]:
        if isinstance(value, torch.Tensor):
            return [value]
        return [t for v in value for t in some(v)] if isinstance(value, (list, tuple)) else []

    return [t for n in node.all_input_nodes for t in some(n.meta.get("val"))], some(node.meta.get("val"))
