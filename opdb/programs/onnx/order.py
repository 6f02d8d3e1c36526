"""Sorts the nodes of an ONNX graph so that each comes after the nodes that it reads."""

from __future__ import annotations

from collections.abc import Container, Sequence

import onnx

from opdb.programs.onnx.subgraphs import reads


def ordered(
    nodes: Sequence[onnx.NodeProto | None], known: Container[str]
) -> list[tuple[int, onnx.NodeProto]]:
    """The nodes that are not None with their places in the file, each after the nodes it reads, otherwise in the file's order.

    ``known``: names that need no node.  Names that no node makes are ignored; nodes in a cycle are kept, in some order.
    """
    there = {place: proto for place, proto in enumerate(nodes) if proto is not None}
    maker = {name: place for place, proto in there.items() for name in proto.output if name}
    waits = {
        place: {maker[n] for n in reads(proto) if n not in known and maker.get(n, place) != place}
        for place, proto in there.items()
    }
    done: set[int] = set()
    out: list[int] = []
    for start in there:
        stack, entered = [start], {start}
        while stack:
            place = stack[-1]
            left = [p for p in sorted(waits[place]) if p not in done and p not in entered]
            if left:
                stack.append(left[0])
                entered.add(left[0])
                continue
            stack.pop()
            if place not in done:
                done.add(place)
                out.append(place)
    return [(place, there[place]) for place in out]
