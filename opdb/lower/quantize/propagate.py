"""Encodings that follow from other encodings: shared through ops that only move data, fixed, derived.

One engine for all ops: it reads their specs (opdb.core.quant_rules) and knows none of them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from opdb.core.dtypes import BY_SHORT
from opdb.core.errors import OpdbError
from opdb.core.graph import GraphTensor, QnnGraph
from opdb.core.op_config import Quant
from opdb.core.quant_rules import SlotRule
from opdb.lower.quantize.encodings import Range, encoding, product
from opdb.lower.quantize.slots import Place, places


class Groups:
    """Tensors that have one encoding: the transitive closure of ``share`` in the specs over the whole graph."""

    def __init__(self, graph: QnnGraph, takes: Callable[[GraphTensor], bool]) -> None:
        self.members: dict[str, list[str]] = {name: [name] for name in graph.tensors}
        self._root = {name: name for name in graph.tensors}
        for op in graph.ops:
            joined = [p.tensor for p in places(op) if p.shared and takes(graph.tensors[p.tensor])]
            for name in joined[1:]:
                self.join(joined[0], name)

    def root(self, tensor: str) -> str:
        """The tensor that represents the group of ``tensor``."""
        return self._root[tensor]

    def join(self, a: str, b: str) -> None:
        """Gives two tensors, and those that share with them, one encoding."""
        keep, gone = self._root[a], self._root[b]
        if keep != gone:
            self.members[keep] += self.members.pop(gone)
            self._root |= dict.fromkeys(self.members[keep], keep)


def propagate(graph: QnnGraph) -> QnnGraph:
    """Returns the graph with an encoding on every quantized tensor: given, or derived from given ones.

    Raises OpdbError if two given encodings or data types of one group differ, and for a quantized tensor
    that gets none: opdb assumes no scale.
    """
    groups = Groups(graph, lambda t: BY_SHORT[t.dtype].quantized)
    found = _given(graph, groups)
    centered = symmetric_groups(graph, groups)
    for op in graph.ops:
        for place in places(op):
            root = groups.root(place.tensor)
            dtype = graph.tensors[place.tensor].dtype
            if place.rule.range and place.output and BY_SHORT[dtype].quantized:
                found.setdefault(root, encoding(fixed_range(place.rule), dtype, root in centered))
    quants = {name: found[root] for root in found for name in groups.members[root]}
    for op in graph.ops:
        derive(places(op), quants)
    missing = [n for n, t in graph.tensors.items() if BY_SHORT[t.dtype].quantized and n not in quants]
    if missing:
        raise OpdbError(
            f"{graph.name}: no encoding is given for, or follows for, {', '.join(missing[:5])}"
            + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
            + "; give each a scale and an offset, or calibrate the graph with quantize()"
        )
    tensors = {n: replace(t, quant=quants.get(n)) for n, t in graph.tensors.items()}
    return QnnGraph(graph.name, tensors, list(graph.ops))


def fixed_range(rule: SlotRule) -> Range:
    """The range of real values that a spec fixes."""
    assert rule.range is not None
    return Range(*rule.range, rule.steps)


def _given(graph: QnnGraph, groups: Groups) -> dict[str, Quant]:
    """The encoding of each group that has a given one."""
    found: dict[str, tuple[str, Quant]] = {}
    for tensor in graph.tensors.values():
        root = groups.root(tensor.name)
        other = graph.tensors[root]
        if tensor.dtype != other.dtype:
            raise OpdbError(
                f"{graph.name}: {other.name} is {other.dtype} and {tensor.name} {tensor.dtype}, but ops that only "
                "move data lie between them; put a Convert there"
            )
        if tensor.quant is None:
            continue
        name, quant = found.setdefault(root, (tensor.name, tensor.quant))
        if quant != tensor.quant:
            raise OpdbError(
                f"{graph.name}: {name} and {tensor.name} share one encoding, but {quant} and {tensor.quant} are given"
            )
        if quant.axis is not None and len(groups.members[root]) > 1:
            raise OpdbError(
                f"{graph.name}: {name} has an encoding along axis {quant.axis}; it cannot be shared through ops "
                "that move data"
            )
    return {root: quant for root, (_, quant) in found.items()}


def symmetric_groups(graph: QnnGraph, groups: Groups) -> set[str]:
    """The groups (by root) with a slot that wants real zero in the middle."""
    return {groups.root(place.tensor) for op in graph.ops for place in places(op) if place.rule.symmetric}


def derive(of_node: Iterable[Place], quants: dict[str, Quant]) -> None:
    """Adds the encodings that ``scale`` in the spec derives from other encodings of the node."""
    by_slot: Mapping[str, str] = {p.slot: p.tensor for p in of_node}
    for place in of_node:
        sources = [by_slot[s] for s in place.rule.scale if s in by_slot]
        if place.rule.scale and place.tensor not in quants and all(s in quants for s in sources):
            quants[place.tensor] = product([quants[s] for s in sources], 0)
