"""The groups of an estimate summed by node, by module of the model or by kind of op."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opdb.measure.cost.difference import kinds
from opdb.measure.cost.figures import Estimate, Group

BY = ("node", "module", "op")
#: The row of nodes that belong to no submodule, or to several without a common parent.
TOP = "(the model itself)"


@dataclass(frozen=True)
class Row:
    """One or more groups.  ``what``: the nodes, the module, or the kinds of ops; ``ops``: the kinds, those of the largest group first.

    The ``us`` of all rows of an estimate add up to the simulated time; ``dma_wait_us`` of it is waiting for data.
    """

    what: str
    us: float
    share: float
    dma_wait_us: float
    groups: int
    nodes: int
    ops: str
    missing: bool


def rows(estimate: Estimate, by: str, modules: Mapping[str, str]) -> tuple[Row, ...]:
    """Sums the groups, the longest first.  ``modules``: by the origin of nodes, e.g. torch node -> encoder.layers.0."""
    found: dict[str, list[Group]] = {}
    for group in estimate.groups:
        found.setdefault(key(group, by, modules), []).append(group)
    made = [_row(what, groups) for what, groups in found.items()]
    return tuple(sorted(made, key=lambda row: -row.us))


def _row(what: str, groups: list[Group]) -> Row:
    longest = sorted(groups, key=lambda g: -g.us)
    ops = list(dict.fromkeys(kinds(g) for g in longest if g.nodes))
    return Row(
        what=what,
        us=sum(g.us for g in groups),
        share=sum(g.share for g in groups),
        dma_wait_us=sum(g.dma_wait_us for g in groups),
        groups=len(groups),
        nodes=sum(len(g.nodes) for g in groups),
        ops="; ".join(ops[:3]) + ("; ..." if len(ops) > 3 else ""),
        missing=any(g.missing for g in groups),
    )


def key(group: Group, by: str, modules: Mapping[str, str]) -> str:
    """The row that a group belongs to."""
    if not group.nodes:
        return group.node
    if by == "op":
        return kinds(group)
    if by == "node":
        return " + ".join(group.nodes)
    return _common([modules.get(origin, "") for origin in group.origins])


def _common(modules: list[str]) -> str:
    """The innermost module that contains all; e.g. layer1.0 for layer1.0.conv1 and layer1.0.relu."""
    paths = [m.split(".") if m else [] for m in modules]
    shared: list[str] = []
    for parts in zip(*paths, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared) or TOP
