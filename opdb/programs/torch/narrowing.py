"""Conversions to integers of fewer bits, where QNN clips and PyTorch wraps around: correct if the numbers fit."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from opdb.programs.torch.bounds import interval, operator_of
from opdb.programs.torch.in_place import copy_of, recompiled
from opdb.programs.torch.promotions import conversion

CONVERSIONS = ("_to_copy", "to", "type_as")


def through_int32(exported: ExportedProgram) -> ExportedProgram:
    """A copy of the program that converts floats to integers of fewer bits via int32 if they fit; itself if there are none."""
    if not any(map(_from_floats, exported.graph.nodes)):
        return exported
    made, _ = copy_of(exported)
    for node in list(made.graph.nodes):
        if _from_floats(node):
            with made.graph.inserting_before(node):
                whole = conversion(made.graph, node.args[0], torch.int32, node)
            node.replace_input_with(node.args[0], whole)
    return recompiled(made)


def _from_floats(node: Node) -> bool:
    if (
        node.op != "call_function"
        or operator_of(node) not in CONVERSIONS
        or not isinstance(node.args[0], Node)
    ):
        return False
    read = node.args[0].meta["val"].dtype
    return bool(read.is_floating_point) and _narrow(node) and _fits(node)


def keeps_numbers(node: Node) -> bool:
    """True if a conversion of integers to fewer bits is known to keep every number; e.g. of 20 classes to uint8."""
    source = node.args[0]
    if not isinstance(source, Node):
        return False
    return _integers(source.meta["val"].dtype) and _narrow(node) and _fits(node)


def _fits(node: Node) -> bool:
    ends, (low, high) = torch.iinfo(node.meta["val"].dtype), interval(node.args[0])
    return bool(ends.min <= low and high <= ends.max)


def _narrow(node: Node) -> bool:
    dtype = node.meta["val"].dtype
    return _integers(dtype) and dtype not in (torch.int32, torch.int64)


def _integers(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
